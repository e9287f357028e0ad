// Package local is the part of a queue that lives in this process's memory: the bounded
// front that takes jobs in, the tickets that tell their owners what becomes of them, and a
// pool of workers for jobs that need no queue beyond this process.
//
// # Vocabulary
//
//	Front     the bounded place of jobs that are accepted and not yet durable
//	slot      what an accepted job holds: one of Capacity, and its payload of Bytes
//	admit     give a job a slot
//	take      receive jobs in the order of admission, to make them durable; they keep their slots
//	release   give slots back, because the jobs are durable or have ended
//	evict     take the slot of a job that has not been taken, for a newer one
//	barrier   falls when everything admitted before it has left
//	Ticket    the producer's view of one job
//	Promise   the owner's end of a ticket
//	Registry  finds the promises of durable jobs by ID, without keeping them alive
//	twin      a ticket that shares what becomes of another one, being of the same job
//	Pool      workers behind a front: its jobs are tasks, and end here
//	Group     tasks of a pool that are waited for together
//	Kind      tasks of a pool that are values for one handler
//
// # The life of a slot
//
//	Admit ──▶ free? ──yes─────────────▶ queued ──Take──▶ taken ──Release──▶ free
//	            │                       ▲   │                                │
//	            no                      │   └── evicted: passes on in place  │
//	            │                       │                                    │
//	 by policy: ├─ Wait ──▶ waiting ────┴──────── in order of arrival ◀──────┘
//	            │             └─ deadline, cancelled, closed: refused
//	            ├─ DropOldest ──▶ in the place of the oldest queued ones
//	            ├─ DropIncoming ──▶ dropped
//	            └─ Reject ──▶ refused
//
// The bound covers queued and taken alike: a slot is free again when the job is durable, not
// when it has been taken. So a durable side that is slow or away fills the front,
// and the policy of each call decides what happens then.
//
// Whoever frees room hands it on: it queues the waiting job itself, under the front's one
// mutex, and wakes the caller afterwards. So nobody who comes later, with whatever policy, gets in
// between. A Take that waits gets the next job through a channel; what it finds queued when it
// comes it takes at once.
//
// # Goroutines
//
// The front and the tickets start none, and need none to be correct: everything happens in
// the calls. Admit is for any number of producers. Take is for one goroutine, the one that makes jobs durable.
// Release, Close, Barrier, Stats and the marks of a Promise are for anybody.
// The only timer is that of a call to Admit that waits, and ends with it.
//
// A Pool starts its workers, one when a task is accepted and nobody is free to look after
// it, up to as many as it may have. They stay, asleep, and end when Resize leaves too many,
// and with Shutdown, which waits for them. A Group starts none.
package local
