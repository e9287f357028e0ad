package main

import "time"

// weir is our side, on the engine that is the default.
const weir = "weir"

const (
	// small, middle and large are the payloads.
	small, middle, large = 100, 1 << 10, 64 << 10
	producers            = 16
)

// steady is the load of most rows.
func steady(workers, payload int) load {
	return load{Producers: producers, Workers: workers, Payload: payload}
}

func waiting(producers int) load {
	return load{Producers: producers, Workers: 100, Payload: small, Wait: true}
}

func paced(rate int, d time.Duration) load {
	return load{Workers: 100, Payload: small, Rate: rate, For: d}
}

// everyPeer is the sides of a durable row.
func everyPeer(l load) []side { return each(l, "asynq", "watermill", "baseline", weir) }

// otherEngines is the sides of the engines that are not the default.
func otherEngines() (names []string) {
	for _, e := range engines[1:] {
		names = append(names, e.side())
	}
	return names
}

// rows is all that can be measured, what has a goal first. To add a row, add it here. The points that take
// minutes each are there only if asked for.
func rows(long bool) []*row {
	backlogs := []int{1_000, 10_000, 100_000, 1_000_000}
	if long {
		backlogs = append(backlogs, 10_000_000)
	}
	overloaded := 15 * time.Second
	if long {
		overloaded = time.Minute
	}
	bareBacklogs := curve([]int{1_000, 1_000_000}, func(n int) load { return load{Producers: 1, Workers: 1, Payload: small, Backlog: n} })
	const rate = "jobs/s"
	always := []string{"--appendonly", "yes", "--appendfsync", "always"}
	everysec := []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	return []*row{
		{
			name: "e2e-100", title: "end to end, 100 workers", family: "throughput", metric: rate, quick: true, redis: noArgs,
			sides: everyPeer(steady(100, small)), do: endToEnd,
			goals: []goal{
				{than: "asynq", limit: 10, next: 20},
				{metric: "server µs/job", most: true, limit: 7, next: 3},
			},
		},
		{
			name: "e2e-10", title: "end to end, 10 workers", family: "throughput", metric: rate, quick: true, redis: noArgs,
			sides: everyPeer(steady(10, small)), do: endToEnd,
			goals: []goal{{than: "asynq", limit: 10, next: 20}},
		},
		{
			name: "drain", title: "drain of a preloaded 200,000, 100 workers", family: "throughput", metric: rate, quick: true, redis: noArgs,
			sides: everyPeer(load{Workers: 100, Payload: small, Jobs: 200_000}), rounds: 3, fixed: true, do: drain,
			goals: []goal{{than: "asynq", limit: 12, next: 20}},
		},
		{
			name: "always", title: "end to end, 100 workers, appendfsync always", family: "throughput", metric: rate, quick: true, redis: always,
			sides: everyPeer(steady(100, small)), do: endToEnd,
			goals: []goal{{than: "asynq", limit: 25, next: 40}},
		},
		{
			name: "enqueued-256", title: "every submit waits for enqueued, 256 producers", family: "throughput", metric: rate, quick: true, redis: noArgs,
			sides: everyPeer(waiting(256)), do: endToEnd,
			goals: []goal{{than: "asynq", limit: 10, next: 15}},
		},
		{
			name: "latency-200", title: "start latency at 200/s", family: "latency", metric: "p99 ms", less: true, quick: true, redis: noArgs,
			sides: everyPeer(paced(200, 10*time.Second)), rounds: 3, fixed: true, do: startLatency,
			goals: []goal{{than: "watermill", most: true, limit: 1.3, next: 1}},
		},
		{
			name: "latency-5000", title: "start latency at 5,000/s", family: "latency", metric: "p99 ms", less: true, quick: true, redis: noArgs,
			sides: everyPeer(paced(5000, 5*time.Second)), rounds: 3, fixed: true, do: startLatency,
			goals: []goal{{than: "watermill", most: true, limit: 1.3, next: 1}},
		},
		{
			name: "memory-100", title: "Redis memory per pending job, 100 B", family: "memory", metric: "bytes/job", less: true, quick: true, redis: noArgs,
			sides: everyPeer(load{Payload: small, Jobs: 100_000}), rounds: 1, fixed: true, do: memory,
			goals: []goal{{than: "asynq", most: true, limit: 0.8, next: 0.62}},
		},
		{
			name: "accept", title: "accept (front only) beside pond Submit", family: "in process", metric: "ns", less: true, quick: true,
			sides: sidesOf(acceptors), do: accept,
			goals: []goal{
				{than: "pond Submit", most: true, limit: 0.4, next: 0.2},
				{metric: "allocs", most: true, limit: 2, next: 1},
			},
		},
		{
			name: "reject", title: "reject when full", family: "in process", metric: "ns", less: true, quick: true,
			sides: sidesOf(rejecters), do: reject, against: []string{"weir accept", "semaphore"},
			goals: []goal{{than: "weir accept", most: true, limit: 1}, {metric: "allocs", most: true, limit: 1}},
		},
		{
			name: "pool", title: "task through a pool, 16 workers, 16 producers", family: "in process", metric: "ns", less: true, quick: true,
			sides: poolSides(load{Producers: producers, Workers: 16}), do: poolThroughput,
			goals: []goal{
				{than: "ants", most: true, limit: 1, next: 0.5},
				{than: "pond Go", most: true, limit: 1, next: 0.5},
			},
		},
		{
			name: "backlog", title: "throughput at a standing backlog of N jobs", family: "curves", metric: rate, quick: true, redis: noArgs,
			sides: curve(backlogs, func(n int) load {
				return load{Producers: producers, Workers: 100, Payload: small, Backlog: n}
			}),
			rounds: 3, against: []string{"1,000"}, do: standingBacklog,
			goals: []goal{{side: "1,000,000", than: "1,000", limit: 0.9, next: 1}},
		},
		{
			name: "backlog-plain", title: "the same by plain commands, pipelined: HSET, LPUSH, RPOP, HGETALL, DEL", family: "curves", metric: "server µs/job", less: true, redis: noArgs,
			sides:  bareBacklogs,
			rounds: 3, against: []string{"1,000"}, do: plainBacklog,
		},
		{
			name: "backlog-inline", title: "the same without a key for each job: LPUSH, RPOP", family: "curves", metric: "server µs/job", less: true, redis: noArgs,
			sides:  bareBacklogs,
			rounds: 3, against: []string{"1,000"}, do: inlineBacklog,
		},
		{
			name: "overload", title: "10 × overload, under each policy", family: "overload", metric: "goodput", quick: true, redis: noArgs,
			sides: overloadSides(overloaded, false), rounds: 1, fixed: true, against: []string{}, do: overload,
			goals: []goal{
				{side: "*", limit: 0.95},
				{metric: "memory growth", side: "*", most: true, limit: 1.1},
				{metric: "rejected CPU", side: "*", most: true, limit: 0.1},
			},
		},
		{
			name: "overload-cpu", title: "the same where handlers, Redis and callers share the CPUs", family: "overload", metric: "goodput", redis: noArgs,
			sides: overloadSides(overloaded, true), rounds: 1, fixed: true, against: []string{}, do: overload,
			goals: []goal{
				{side: "*", limit: 0.95},
				{metric: "memory growth", side: "*", most: true, limit: 1.1},
				{metric: "rejected CPU", side: "*", most: true, limit: 0.1},
			},
		},

		// Without a goal of their own.
		{
			name: "everysec", title: "end to end, 100 workers, appendfsync everysec", family: "throughput", metric: rate, redis: everysec,
			sides: everyPeer(steady(100, small)), rounds: 3, do: endToEnd,
		},
		{
			name: "enqueued-16", title: "every submit waits for enqueued, 16 producers", family: "throughput", metric: rate, redis: noArgs,
			sides: everyPeer(waiting(16)), rounds: 3, do: endToEnd,
		},
		{
			name: "enqueued-1", title: "every submit waits for enqueued, 1 producer", family: "throughput", metric: rate, redis: noArgs,
			sides: everyPeer(waiting(1)), rounds: 3, do: endToEnd,
		},
		{
			name: "enqueued-256-always", title: "waits for enqueued, 256 producers, appendfsync always", family: "throughput", metric: rate, redis: always,
			sides: everyPeer(waiting(256)), rounds: 3, do: endToEnd,
		},
		{
			name: "engines", title: "end to end, 100 workers, on each engine", family: "engines", metric: rate, redis: noArgs,
			sides: everyEngine(steady(100, small)), rounds: 3, against: []string{weir}, of: otherEngines(), do: endToEnd,
		},
		{
			name: "engines-memory", title: "Redis memory per pending job, 100 B, on each engine", family: "engines", metric: "bytes/job", less: true, redis: noArgs,
			sides: everyEngine(load{Payload: small, Jobs: 100_000}), rounds: 1, fixed: true, against: []string{weir}, of: otherEngines(), do: memory,
		},
		{
			name: "payload-1k", title: "end to end, 100 workers, payload 1 KB", family: "throughput", metric: rate, redis: noArgs,
			sides: everyPeer(steady(100, middle)), rounds: 3, do: endToEnd,
		},
		{
			name: "payload-64k", title: "end to end, 100 workers, payload 64 KB", family: "throughput", metric: rate, redis: noArgs,
			sides: everyPeer(steady(100, large)), rounds: 3, do: endToEnd,
		},
		{
			name: "memory-1k", title: "Redis memory per pending job, 1 KB", family: "memory", metric: "bytes/job", less: true, redis: noArgs,
			sides: everyPeer(load{Payload: middle, Jobs: 20_000}), rounds: 1, fixed: true, do: memory,
		},
		{
			name: "memory-64k", title: "Redis memory per pending job, 64 KB", family: "memory", metric: "bytes/job", less: true, redis: noArgs,
			sides: everyPeer(load{Payload: large, Jobs: 2_000}), rounds: 1, fixed: true, do: memory,
		},
		{
			name: "ticket", title: "a ticket from its making to its end", family: "in process", metric: "ns", less: true,
			sides: sidesOf(tickets), do: ticket, of: []string{"weir waited for"}, against: []string{"channel"},
		},
		{
			name: "pool-100", title: "task through a pool, 100 workers, 16 producers", family: "in process", metric: "ns", less: true,
			sides: poolSides(load{Producers: producers, Workers: 100}), do: poolThroughput,
		},
		{
			name: "pool-wait", title: "task that is submitted and waited for, one by one", family: "in process", metric: "ns", less: true,
			sides: sidesOf(waiters), do: poolWait,
		},
		{
			name: "workers", title: "end to end with N workers", family: "curves", metric: rate, redis: noArgs,
			sides:  curve([]int{1, 10, 100, 1000}, func(n int) load { return steady(n, small) }),
			rounds: 3, against: []string{"100"}, do: endToEnd,
		},
		{
			name: "producers", title: "end to end with N producers", family: "curves", metric: rate, redis: noArgs,
			sides: curve([]int{1, 10, 100, 1_000, 10_000}, func(n int) load {
				return load{Producers: n, Workers: 100, Payload: small}
			}),
			rounds: 3, against: []string{"10"}, do: endToEnd,
		},
		{
			name: "queues", title: "N queues of one process, 2 workers each", family: "curves", metric: rate, redis: noArgs,
			sides: curve([]int{1, 10, 100, 1_000}, func(n int) load {
				return load{Producers: producers, Workers: 2, Payload: small, Queues: n}
			}),
			rounds: 3, against: []string{"1"}, do: manyQueues,
		},
		{
			name: "consumers", title: "one queue, N processes with 4 workers each", family: "curves", metric: rate, redis: noArgs,
			sides: curve([]int{1, 4, 16, 64}, func(n int) load {
				return load{Producers: producers, Workers: 4, Payload: small, Processes: n}
			}),
			rounds: 3, against: []string{"1"}, do: manyProcesses,
		},
	}
}
