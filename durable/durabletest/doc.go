// Package durabletest helps to test what stands on a queue, and to test engines.
//
// # Testing a program that uses a queue
//
// durable.NewMemory is a queue without a server. Gate holds calls of one operation until they are
// released, so that a test sees each state by itself, without sleeping. Faulty makes calls fail: before or after
// they were executed, twice, late, or never answered. The assertions look at tickets (Accepted,
// Enqueued, Completed, Ended), at what Submit returned (Rejected), at counters (Counted) and into a store
// (Stored); one that fails ends the test, as t.Fatal does, so it is called on the test's goroutine.
//
// All of it works inside a bubble of testing/synctest, where delays between retries cost no time: an assertion
// that waits gives up after a day there, elsewhere after half a minute. In what follows open opens a queue with
// the kind welcome on an engine until the test ends, and submit expects a job to be accepted. The
// whole file is usage_test.go of this package; docs/testing.md says more.
//
// Accepted, but not enqueued:
//
//	gate := durabletest.NewGate(durable.NewMemory(nil))
//	_, welcome := open(t, gate, nil)
//	gate.Hold(durabletest.OpAppend)
//	ticket := submit(t, welcome, "ann")
//	durabletest.Accepted(t, ticket) // in this process only; a crash loses it
//	gate.Release(durabletest.OpAppend)
//	durabletest.Enqueued(t, ticket) // the store has it
//
// Rejected:
//
//	_, welcome := open(t, gate, &bridge.Options{Capacity: 1})
//	gate.Hold(durabletest.OpAppend)
//	first := submit(t, welcome, "ann") // has the only slot
//	_, err := welcome.TrySubmit(Email{To: "bob"})
//	durabletest.Rejected(t, err, policy.ErrFull) // bob's job is still the caller's
//
// Evicted:
//
//	_, welcome := open(t, gate, &bridge.Options{Capacity: 2, Policy: policy.DropOldest()})
//	gate.Hold(durabletest.OpAppend)
//	submit(t, welcome, "ann")
//	synctest.Wait() // ann's job is being sent: it is too late to evict it
//	bob := submit(t, welcome, "bob")
//	eve, err := welcome.Submit(t.Context(), Email{To: "eve"}, policy.Policy{})
//	durabletest.Ended(t, bob, local.ErrEvicted)
//	durabletest.Accepted(t, eve)
//
// Retried, by a handler that fails when d.Attempt is 1:
//
//	go func() { _ = queue.Run(t.Context(), nil) }()
//	durabletest.Completed(t, submit(t, welcome, "ann")) // the delay between the runs costs no time in a bubble
//	durabletest.Counted(t, queue.Counters(), bridge.Counters{Enqueued: 1, Started: 2, Retried: 1, Completed: 1})
//
// Dead, by a handler that returns bridge.Permanent(errNoSuchUser):
//
//	go func() { _ = queue.Run(t.Context(), nil) }()
//	durabletest.Ended(t, submit(t, welcome, "ann"), local.ErrDead, errNoSuchUser)
//	durabletest.Stored(t, memory, durable.Stats{Dead: 1}) // kept for an operator
//
// # Testing an engine
//
// Run is the conformance suite: every promise of the contract in durable.Engine is a
// subtest. An engine's author runs it in the engine's own tests. RunOperator does the same for the calls
// of durable.Operator.
//
// # Goroutines
//
// Faulty starts a goroutine for each postponed call; Faulty.Close ends and waits for them. Nothing else
// starts any.
package durabletest
