package main

// experiments are the rows of TORTURE.md, in its order.
var experiments = []*experiment{
	{name: "E01", ci: true, alone: true, run: killWorkers, about: "4 worker processes, SIGKILL a random one every 0.5 to 3 s"},
	{name: "E02", ci: true, run: killProducers, about: "SIGKILL producers at random"},
	{name: "E03", ci: true, run: killRedis, about: "SIGKILL redis with appendfsync always, restart after 0 to 5 s"},
	{name: "E04", run: cutLog, about: "the last 1 to 64 KiB of the append-only file cut, then start"},
	{name: "E05", ci: true, run: freezeRedis, about: "SIGSTOP redis for 30 s with 200 handlers running"},
	{name: "E06", ci: true, each: true, run: freezeWorker, about: "SIGSTOP a worker for 3 leases, SIGCONT"},
	{name: "E07", ci: true, each: true, run: loseReplies, about: "lost replies: 0.1, 1, 5, 20 %, and each exact place; FIN, RST, silence"},
	{name: "E08", run: halfOpen, not: map[string]string{"stream": handsNothing}, about: "100 clients die parked in BLMOVE or BLPOP, the server's side stays open; 1,000 pushes"},
	{name: "E09", run: partition, about: "a worker is cut off for 2 leases, heal"},
	{name: "E10", run: promoteReplica, about: "replica, link cut, master killed, promoted"},
	{name: "E11", run: shakeCluster, about: "three-master cluster: failover, kill -9 a master, reshard the queue's slot to and fro"},
	{name: "E12", ci: true, run: fillRedis, about: "maxmemory reached under load and never raised"},
	{name: "E13", ci: true, run: evictKeys, about: "allkeys-lru at start, and switched on later"},
	{name: "E14", run: refuse, about: "MISCONF, NOREPLICAS, BUSY by a foreign script, LOADING"},
	{name: "E15", ci: true, run: meddle, about: "FLUSHALL, DEL of each kind of key, SCRIPT FLUSH, CLIENT KILL every 100 ms"},
	{name: "E16", ci: true, run: deny, about: "each key of the wrong type; an ACL user who lacks one command at a time"},
	{name: "E17", ci: true, run: malform, about: "malformed items by an operator or another version"},
	{name: "E18", run: mixVersions, about: "old and new binary on the same queue, alternating"},
	{name: "E19", ci: true, alone: true, run: press, not: map[string]string{"stream": frontAlone, "sortedset": frontAlone}, about: "the front: each policy, capacities 1 to 10,000, 1 and 64 producers, bridge fast, stalled, failing"},
	{name: "E20", ci: true, run: shutDown, about: "shutdown under load: each grace, killed, twice, in an outage, from a handler"},
	{name: "E21", ci: true, run: deafHandlers, about: "handlers ignore their contexts; timeouts; contexts cancelled at Submit"},
	{name: "E22", ci: true, run: killers, about: "os.Exit, panic, Goexit, a huge allocation in a handler"},
	{name: "E23", run: oddClient, about: "the user's client with one connection, retries and no patience; 64 queues consumed"},
	{name: "E24", alone: true, run: mass, about: "a million ready, a million due at once, a dead consumer with 100,000"},
	{name: "E25", ci: true, alone: true, run: compareWithModel, not: map[string]string{"stream": noModel}, about: "the engine against a model, by random steps"},
	{name: "E26", alone: true, run: overload, about: "ten times more offered than can be done, with each policy"},
	{name: "E27", ci: true, each: true, run: cancelUnderFire, about: "many processes cancel jobs that wait, run or have ended; workers killed, replies lost"},
	{name: "E28", ci: true, each: true, run: tooLate, about: "jobs expire behind a backlog; a worker frozen, Redis frozen and killed"},
	{name: "E29", ci: true, each: true, run: submitTwice, about: "many processes submit the same IDs and unique keys; some killed, replies lost, submitted again"},
	{name: "E30", ci: true, each: true, run: tellAll, about: "tickets of jobs that other processes run: workers killed, connections cut, Redis frozen and killed"},
}

// Why an experiment does not apply to an engine.
const (
	handsNothing = "who waits in XREAD is handed nothing, so the dead keep nothing from the living"
	frontAlone   = "it is about the front, before any engine; it runs with -engine list"
	noModel      = "the model has the order of one line, and retries of a stream take turns with what is new; durabletest's histories stand in"
)
