// Package durable keeps jobs where they outlive the process: the contract of an engine
// (Engine), the list, the sorted-set and the stream engine on Redis (NewRedis, Redis.List, Redis.SortedSet,
// Redis.Stream), and Memory
// for tests and for work that may be lost.
//
// # Keys of a list queue
//
// All keys begin with one prefix, "{name}:" unless another is asked for. They are a contract
// with whoever looks at the queue or adds to it in another language:
//
//	pending               list    IDs; pushed at the left, taken from the right
//	arriving              list    IDs that a BLMOVE (or BRPOPLPUSH) has just moved; taken before pending
//	processing:<consumer> list    IDs that this consumer has claimed
//	job:<id>              hash    payload status attempts claim_token claimed_at_ms kind headers
//	                              deliveries crashes max_attempts timeout_ms retention_ms reason append,
//	                              expires_at_ms (no run begins after that), unique (states, for how long after it
//	                              has completed in ms, and the key), cancel_ms (since when it is to be cancelled),
//	                              progress, followers (of those who have asked for it), limit_key, held_ms (until when it
//	                              waits for that),
//	                              and of one that has ended completed_at_ms completed_by payload_bytes result
//	unique:<key>          hash    holder, the ID of the job that has the key, if that says so too; until_ms, until when
//	                              it is kept whatever becomes of that job
//	cancels:<consumer>    hash    ID → token of what it has and is to be cancelled; expires after a day
//	scheduled             zset    ID → when it is due, in ms
//	dead, corrupt         zset    ID → since when, in ms; bounded
//	reasons               hash    ID → why it is in corrupt
//	completed             zset    ID → when the record of what has ended is forgotten, in ms; bounded
//	consumers             zset    consumer → end of its lease, in ms; 0: lost it for good
//	sender:<identity>     hash    last number and answer of each kind of request, follow: the follower it belongs
//	                              to; expires after a day
//	follower:<identity>   hash    who is told of jobs: last, the last entry of its notices, and the senders that belong
//	                              to it; expires ten minutes after its last call
//	told:<identity>       stream  its notices: after, notices; bounded, expires likewise
//	running:<key>         zset    ID → when it was claimed, in ms: the claims under a limit key, while those are bounded, and
//	                              more; the jobs are asked
//	held:<key>            zset    ID → its turn: scheduled jobs that wait for the end of one of these, or for the rate of the
//	                              key; likewise
//	rate:<key>            hash    tat: what the rate of a limit key goes by, in µs; expires when it says nothing more
//	counters              hash    next_sender, fence, and the accounting that Stats shows
//	meta                  hash    wire (version), epoch, bounds and who set them, pause_intake and
//	                              pause_claims, each with _by and _ms; limits, limited_by, limited_ms and rate_us; and
//	                              following_ms, until when at most somebody follows
//
// A status is pending, processing, scheduled, dead or corrupt, and of a record completed, cancelled or expired; an absent field
// means pending, 0 or empty. So
//
//	HSET  {mail}:job:42 payload '…' status pending attempts 0
//	LPUSH {mail}:pending 42
//
// adds a job that is processed like any other, HSET {mail}:job:42 cancel_ms 1 cancels it while it waits, and
// HSET {mail}:meta pause_claims 1 stops all workers of the queue until the field is deleted. A job that an engine has appended with
// nothing but payload and kind has no status until it is claimed, and no other field of it is read: whoever writes one by
// hand before that writes status pending with it.
//
// A job that is completed, cancelled or expired is deleted, unless its retention_ms asks for its record to be kept: its hash then
// stays for so long, without the payload, and the ID is taken meanwhile.
//
// A unique key is an index and no lock: the job that it names has it while its own hash names the key too, in its field
// unique, and is in one of the states that this begins with: p pending, s scheduled, r processing, d dead. So
//
//	HSET  {mail}:job:42 payload '…' unique 'psr 0 welcome:7'
//	HSET  {mail}:unique:welcome:7 holder 42
//	LPUSH {mail}:pending 42
//
// adds one that keeps others with the key welcome:7 out until it has ended. A key whose job was deleted by hand is free, and stays
// until it is taken again.
//
// # Keys of a sorted-set queue
//
// Those of a list queue, with these differences:
//
//	pending               zset    ID → when it arrived, in µs, less Ageing for each level of its priority; the lowest
//	                              score is claimed first
//	wake                  list    one entry while something waits, to end the wait of one consumer; in place of arriving
//	job:<id>                      has priority, if it is not 0, and place: the score it had when it was claimed
//	counters                      has arrived, the last arrival
//	meta                          has engine, zset, and step_us, the Ageing of whoever opened the queue last
//
// So, for a priority of 5 with an Ageing of a minute,
//
//	HSET {mail}:job:42 payload '…' priority 5
//	ZADD {mail}:pending 1767225300000000 42
//
// adds a job that counts as arrived at 2026-01-01 00:00:00 less five minutes.
//
// # Keys of a stream queue
//
// What belongs to one group ends with @<group>, but for the group weir:
//
//	stream                stream; entries: id kind payload append, and where they are not empty headers
//	                              max_attempts timeout_ms retention_ms; for_group of a redriven one
//	job:<id>              hash    append entry; of each group status claim_token claimed_at_ms attempts crashes
//	                              deliveries fence reason redriven buried; of a delayed one all its fields
//	scheduled             zset    ID → when it is added to the stream, in ms
//	returned              zset    entries that came back, by their place; claimed first
//	retries               zset    entry → when it is due, in ms
//	dead, corrupt         stream  copies of entries, with entry and reason; bounded
//	wake                  stream  one marker, to end the waits of others
//	accounts              hash    the accounting that Stats shows
//	completed, consumers, sender:<identity>, counters, meta as above; meta has engine besides
//
// Consumers of the group are the identities, and "-", for which is pending what nobody holds. So
//
//	XADD {mail}:stream * payload '…' kind welcome
//
// adds a job that is processed like any other, under the ID of its entry.
//
// # Keys of an Idempotent
//
// Each effect has one, a hash that always has a TTL:
//
//	once:<key>            state (running, failed, done) job fence run begun_ms until_ms done_ms result
//
// # Engines
//
// All engines keep the contract of Engine; durabletest.Run checks it on each. What not all of them can do is a
// flag of Capabilities, and a row here:
//
//	                 | List               | SortedSet           | Memory              | Stream
//	order            | FIFO               | FIFO in a priority  | FIFO in a priority  | FIFO
//	what is released | comes first        | its old place (3)   | comes first (3)     | comes first
//	delay            | sorted set         | sorted set          | yes                 | sorted set
//	priority         | no (1)             | -100 to 100, ageing | -100 to 100, ageing | no (1)
//	fan-out          | no (2)             | no (2)              | no (2)              | groups
//	retention        | yes                | yes                 | yes                 | yes
//	recovery         | leases             | leases              | leases              | leases, and XAUTOCLAIM
//	bounds           | backlog, dead,     | backlog, dead,      | backlog, dead,      | backlog, dead,
//	                 | corrupt, completed | corrupt, completed  | completed           | corrupt, completed
//	expiry           | when it is met     | when it is met      | when it is met      | when it is met
//	unique keys      | yes                | yes                 | yes                 | yes
//	cancelling       | yes                | yes                 | yes                 | yes
//	results          | yes                | yes                 | yes                 | yes
//	following        | a stream each      | a stream each       | yes                 | a stream each
//	limits           | yes                | yes                 | yes                 | no (7)
//	commands per job | 5 and the batch's  | 5 and the batch's   | none                | 5 and the batch's (4)
//	bytes per job    | about 480 (5)      | about 590 (5)       | its own             | about 330 (5)
//	server's time    | 1                  | about 1.2           | none                | about 1.7
//	who waits        | one is woken       | one is woken        | one is woken        | all are woken
//	survives         | what Redis does    | what Redis does     | nothing             | what Redis does
//	minimum version  | Redis 5.0 (6)      | Redis 5.0           | none                | Redis 7.0
//
// (1) A list and a stream have one order, and it is that of arrival. (2) A list's entry is taken by one
// consumer, and then it is not there for others; so is a set's. (3) Before all that waits with its priority. (4) They are
// dearer. (5) Waiting, with 100 bytes of payload, on Redis 7.0.15. (6) Without BLMOVE (before 6.2) it waits in BRPOPLPUSH,
// which the first check finds out and warns of; the scripts need the replication of effects, the default since 5.0. (7) What
// waits for its key has to step aside meanwhile, and an entry of a stream stays where it is: not built yet.
//
// # Scripts
//
// Every change is one Lua script of lua/, atomic on the server, and each begins with a header
// that says what it takes and gives. All times that two processes share are Redis's.
//
// The wire version in meta changes when an older library would misread or break what a newer
// one writes. A library refuses, by name and without a write, a queue of a newer version than
// its own, and writes its own into an older one; so all processes that share a queue are upgraded
// to a version that knows the new wire before the first that writes it runs.
//
// # Goroutines
//
// A Redis, a List, a SortedSet and a Stream start none that outlast a call, but for the one of an Await that was given
// up: it ends with its BLMOVE, BRPOPLPUSH, BLPOP or XREAD, within a second or so, and Close waits for it. Those of
// go-redis that still dial when a client is closed are cancelled. Memory starts none.
package durable
