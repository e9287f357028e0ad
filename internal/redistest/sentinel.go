package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// Sentinel is one redis-sentinel process; see redisproc.Sentinel.
type Sentinel struct{ *redisproc.Sentinel }

// SentinelGroup is the name under which sentinels know the servers they watch.
const SentinelGroup = redisproc.SentinelGroup

// StartSentinel starts a sentinel that ends with the test. It watches primary and its replicas, and makes one of them the
// primary when quorum sentinels have not heard of the first one for down.
func StartSentinel(t testing.TB, primary *Server, quorum int, down time.Duration) *Sentinel {
	t.Helper()
	s, err := redisproc.StartSentinel(t.TempDir(), primary.Port(), quorum, down)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.Kill)
	return &Sentinel{s}
}

// FailoverClient returns a client of whichever server sentinels take for the primary, with the library's defaults. It closes
// with the test.
func FailoverClient(t testing.TB, sentinels ...*Sentinel) *redis.Client {
	t.Helper()
	o := &redis.FailoverOptions{MasterName: SentinelGroup}
	for _, s := range sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, s.Addr())
	}
	c := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
