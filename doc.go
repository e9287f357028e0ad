// Package weir is the front page of a library for background jobs that keeps
// its bounds. It exports nothing: programs import package bridge, and package
// policy for what to do when there is no room.
//
// A weir is a low dam: it holds water back and lets through what the channel
// below can take.
//
//	            accepted              enqueued              processing         completed
//	producers ──Submit──▶ local front ──ship──▶ Redis ──claim──▶ workers ──settle──▶ gone | retry | dead
//	   ▲                 bounded, in RAM    bounded, durable     your handler
//	   └── rejection, eviction, abandonment: always told, on the call or on the ticket ──┘
//
// # Vocabulary
//
// A job passes four states, and none of them is called success.
//
//   - accepted: Submit returned nil. The job holds a slot of the front, in the
//     memory of this process and nowhere else.
//   - enqueued: Redis executed the append. The job survives this process; it
//     survives Redis as far as Redis is configured to keep data.
//   - processing: a worker holds the claim, and the handler has been called.
//   - completed: the handler returned nil and Redis confirmed the completion.
//
// A job that does not complete has exactly one other end, told by its ticket:
//
//   - dropped, evicted: a drop policy discarded the incoming job, or displaced
//     an accepted one.
//   - refused: Redis said no for good: a dead job has the ID, or a key holds something else.
//     (A live job with the same ID, or the same unique key, makes the later one a duplicate,
//     whose ticket follows the first.)
//   - abandoned: it was not made durable in time and certainly never will be.
//   - uncertain: it was sent, and no answer came in time. It may still run;
//     submit it again under the same ID.
//   - dead: attempts used up, a permanent error, or it kept killing its worker.
//     Redis keeps it for an operator.
//   - cancelled: it was asked for, by Queue.Cancel, or its record was removed while it ran.
//   - expired: it had waited longer than it was worth, and is never run.
//   - detached: this process has stopped watching. The job is durable and goes on.
//
// # Guarantees, and what is not promised
//
//   - An error from Submit means that nothing of the job will ever run. Nil means
//     that the queue owns the job, and its fate is on the ticket.
//   - An accepted job is lost when its process dies before the job is enqueued.
//     Wait for Ticket.WaitEnqueued where that matters.
//   - An enqueued job is not lost while Redis keeps its data. A Redis that loses
//     acknowledged writes (a crash without appendfsync always, a failover to a
//     replica that lags) can lose it.
//   - A job runs at least once. Each repeated run has Deliveries greater than 1.
//     Exactly once does not exist; with the job's ID and its fencing number a
//     handler can make repetition harmless.
//   - A worker that lost its claim changes nothing: completion, retry and error
//     are refused by token. What its handler does elsewhere is not undone.
//   - Jobs are claimed in the order in which they were enqueued. With more than
//     one worker, with retries or with returned jobs they do not finish in it.
//   - Memory is bounded: the front by jobs and bytes, the watched tickets by
//     number, the backlog in Redis by number. Retries, jobs returned by a lost
//     worker and foreign producers may exceed the backlog's bound.
//   - Every wait ends by its deadline, whatever Redis does. There is no wait
//     without one.
//
// # Choosing a policy
//
// A policy says what one call does when there is no room; each call names its
// own. The zero policy is the queue's default, which is policy.Reject unless
// Options say otherwise.
//
//   - policy.Reject: somebody is waiting for an answer and can come back. Pass the
//     rejection's RetryAfter on.
//   - policy.Wait: the caller has time, up to a deadline, and should be slowed down.
//     A wait that cannot succeed is refused at once.
//   - policy.DropIncoming: a sample more or less does not matter.
//   - policy.DropOldest: only the newest matters. The owners of what was displaced
//     are told.
//   - policy.Func: a decision of your own, made from a snapshot of the front.
//
// The bound covers the place where jobs are: a slot is taken at accept and given
// back when the job is durable or has ended. When Redis is full or away, the
// front fills, and each call's policy decides.
//
// # Shutdown
//
// Queue.Run works until its context ends, then stops claiming, gives handlers a
// grace time, cancels the rest with a cause and gives their jobs back.
// Queue.Flush waits until what was accepted before the call is enqueued or has
// ended. Queue.Shutdown takes no more in, ships what the front holds, ends Run,
// and reports: what could not be made durable by the deadline of its context is
// returned, job by job, apart from what is uncertain. After it nothing of the
// library is left running.
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//	defer stop()
//	err := queue.Run(ctx, nil)                // returns after SIGTERM and the grace time
//	report, err := queue.Shutdown(deadline)   // with a context of its own
//
// # Testing your code
//
// durable.NewMemory is a queue without Redis, and package durable/durabletest holds its calls and
// asserts: accepted but not enqueued, rejected, evicted, retried and dead, in a few lines each and
// without sleeping.
package weir
