// Package durabletest helps to test engines, and what stands on one.
//
// Run is the conformance suite: every promise of the contract in durable.Engine is a
// subtest. An engine's author runs it in the engine's own tests.
//
// Gate and Faulty wrap an engine. Gate holds calls of one operation until they are
// released, so that a test sees what is accepted but not yet enqueued without sleeping.
// Faulty makes calls fail: before or after they were executed, twice, late, or never
// answered. Both work inside testing/synctest. Faulty starts a goroutine for each
// postponed call; Faulty.Close ends and waits for them.
package durabletest
