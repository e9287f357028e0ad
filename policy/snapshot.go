package policy

import "time"

// Snapshot is the state of the front at one instant, for a Func to decide from.
type Snapshot struct {
	// Length is the number of slots that are held, of Capacity. A slot is held from
	// accept until the job is durable or has ended.
	Length, Capacity int
	// Bytes is the payload of the held slots, of ByteCapacity; ByteCapacity is 0 when the
	// front is not bounded by bytes.
	Bytes, ByteCapacity int64
	// Waiting is the number of callers that wait for a slot.
	Waiting int
	// Size is the payload of the incoming job in bytes.
	Size int64

	// Sojourns are measured for those who look at them: from the beginning if the front's default
	// policy is a Func, else from the first call with one on. What was before counts as no wait.

	// HeadSojourn is how long jobs stay before they are taken towards the durable side:
	// the last taken job's wait, or the time since that take if it is longer. If the front
	// has been empty since, it is SinceEmpty. In a pool, where many take, it is 0 while
	// nothing waits for a worker, and counts from then on.
	HeadSojourn time.Duration
	// MinSojourn is the smallest wait of the jobs taken in the last 100 ms; if none was
	// taken, the time since the last take, or since the front was last empty; in a pool,
	// since something has been waiting for a worker.
	MinSojourn time.Duration
	// SinceEmpty is how long the front has held at least one slot without a break.
	SinceEmpty time.Duration

	// DrainRate is how many slots per second are given back while any are held;
	// 0 when nothing has been given back yet.
	DrainRate float64
	// Backlog is the share of the durable bound that is in use, 0 to 1; 0 when unknown.
	Backlog float64
}

// Fill is the largest of the shares in use, 0 to 1: of slots, bytes and durable backlog.
func (s Snapshot) Fill() float64 {
	fill := s.Backlog
	if s.Capacity > 0 {
		fill = max(fill, float64(s.Length)/float64(s.Capacity))
	}
	if s.ByteCapacity > 0 {
		fill = max(fill, float64(s.Bytes)/float64(s.ByteCapacity))
	}
	return fill
}
