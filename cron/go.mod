module github.com/seed-9dec4fca/weir/cron

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/netresearch/go-cron v0.9.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/seed-9dec4fca/weir v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/seed-9dec4fca/weir => ../
