// Package bridge is the front door of weir: a Queue joins the bounded front in this
// process's memory (package local) to a durable engine (package durable), and gives each
// submitted job a Ticket.
//
//	Submit ─▶ front ─▶ shipper ─▶ engine ─▶ consume ─▶ handler ─▶ settler ─▶ engine
//	accepted           enqueued             processing            completed
//
// # Producing
//
// Open a queue, name a kind, and submit with a policy of the call's choice:
//
//	q, err := bridge.Open(store.List("mail", nil), nil)
//	welcome := bridge.NewKind[Email](q, "welcome", nil)
//	ticket, err := welcome.Submit(ctx, email, policy.Wait(50*time.Millisecond))
//
// An error means that the job is still the caller's. Without one the queue owns it, and its
// fate is on the ticket: WaitEnqueued until the store has it, Wait until it is completed. SubmitMany does so for many
// values, each decided by itself.
//
// A Job has settings of its own, for SubmitJob. ID and Unique keep a job from being there twice: a duplicate is no error, but its
// ticket follows the job that is there already (Ticket.Duplicate), and what becomes of that one is what becomes of it. Delay
// and NotBefore say from when on it may run, Expiry until when.
//
// # Consuming
//
//	err = welcome.Handle(func(ctx context.Context, d *bridge.Delivery[Email]) error { … })
//	err = q.Run(ctx, nil)
//
// Delivery is at least once: a handler may run again after a crash or a lost lease, and
// then sees Deliveries > 1. A process may do both, or either. A handler may leave a result (Delivery.SetResult, Ticket.Result)
// and say how far it is (Delivery.Progress, Ticket.Progress).
//
// Queue.Cancel ends a job wherever it is: what waits is never run, and the context of a handler that runs ends, in whatever process.
//
// # Following
//
// A ticket that somebody looks at (Started, Done, Wait, Progress) learns what becomes of its job also when another process runs it, with
// the result; Queue.Follow gives a ticket for any job in the store by its ID. A producer whose last 2,048 tickets
// nobody has looked at or holds (by a sample), nor any for ten minutes, is taken to fire and forget: of a job that ends then, and is looked at
// later, nothing is known (ErrNoRecord), unless Job.Retention keeps its record. docs/tickets.md has what all that costs.
//
// # Operating
//
// Queue.Operator looks jobs up and through them, tends the dead, pauses intake or consumption for all
// processes, and purges. Stats shows what is paused, by whom and since when.
//
// # Who owns which goroutine
//
// The first Submit starts the shipper, which Shutdown ends. A look at an open ticket starts a loop that reads news of it, which
// ends when no open ticket is looked at, and with Shutdown. Run owns its loops and
// handlers (see run.go for the list) and waits for all of them, save for handlers
// that ignore their contexts; those are reported. Exchanges with the store that were abandoned at
// a stop are waited for by Shutdown. Nothing else runs.
package bridge
