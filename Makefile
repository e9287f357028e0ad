# `make test` is all it takes; `make help` lists the rest.

.DEFAULT_GOAL := help

## test: everything, with the race detector; installs a Redis where there is none
.PHONY: test
test:
	@.ci/need cc redis
	go test -race -count=1 ./...

## cover: the tests again, with a coverage profile in cover.out
.PHONY: cover
cover:
	@.ci/need redis
	go test -count=1 -coverpkg=./... -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -n 1

## bench: weir beside its peers, 25 minutes on two idle cores; RUN=drain chooses rows, DIR=/on/a/disk where Redis keeps files
.PHONY: bench
bench:
	@.ci/need redis
	cd bench && go run . $(if $(RUN),-run $(RUN)) $(if $(DIR),-dir $(DIR)) && go run . -docs

## bench-quick: the same in two minutes: ratios only, nothing is written
.PHONY: bench-quick
bench-quick:
	@.ci/need redis
	cd bench && go run . -quick $(if $(RUN),-run $(RUN)) $(if $(DIR),-dir $(DIR))

## gobench: every Go benchmark, with allocations
.PHONY: gobench
gobench:
	@.ci/need redis
	go test -run='^$$' -bench=. -benchmem ./...

## lint: golangci-lint in the pinned version, formatting and import rules included
.PHONY: lint
lint:
	.ci/lint run ./...

## fmt: rewrite the files the way lint wants them
.PHONY: fmt
fmt:
	.ci/lint fmt ./...

## redis: install redis-server where there is none, as test does
.PHONY: redis
redis:
	@.ci/need redis

## torture: every experiment that proves the promises, in the quick form; RUN=E07 SEED=7 ENGINE=stream choose
.PHONY: torture
torture:
	@.ci/need redis
	go run ./internal/torture -quick $(if $(ENGINE),-engine $(ENGINE)) $(if $(RUN),-run $(RUN)) $(if $(SEED),-seed $(SEED))

## torture-long: the same in the long form; hours
.PHONY: torture-long
torture-long:
	@.ci/need redis
	go run ./internal/torture $(if $(ENGINE),-engine $(ENGINE)) $(if $(RUN),-run $(RUN)) $(if $(SEED),-seed $(SEED))

## torture-mutants: breaks the code on purpose, and sees that the experiments notice; RUN chooses mutants
.PHONY: torture-mutants
torture-mutants:
	@.ci/need redis
	go run ./internal/torture -mutants $(if $(RUN),-run $(RUN)) $(if $(SEED),-seed $(SEED))

## model: explores the claim and append protocol exhaustively with spin; installs it where there is none
.PHONY: model
model:
	model/run

## model-mutants: leaves each rule of the protocol out of the model, and sees that it notices
.PHONY: model-mutants
model-mutants:
	model/run -mutants

## model-accept: notes the scripts as they are, once the model was read against them
.PHONY: model-accept
model-accept:
	model/run -accept

## quickstart: the first example, against REDIS_URL or an embedded server
.PHONY: quickstart
quickstart:
	go run ./examples/quickstart

## ci: all that must pass before a change lands
.PHONY: ci
ci:
	.ci/run

## help: this list
.PHONY: help
help:
	@sed -n 's/^## \([a-z-]*\): /\1	/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  make %-15s %s\n", $$1, $$2 }'
