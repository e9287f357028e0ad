package main

import (
	"time"

	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/policy"
)

// account compares what everybody knows.
func (s *story) account() error {
	var account scene.Account
	recent := s.probe.taken - newest
	s.Say("\n%-14s %-7s %9s %10s %9s   counted by\n", "policy", "owner", "emitted", "collected", "lost")
	for _, l := range s.lanes {
		account.Add(l.end)
		var all fate
		var hooked, refused int64
		for i, o := range l.owners {
			f := o.fate(recent)
			s.Say("%-14s %-7s %9d %10d %9d   tickets; the hook says %d\n", l.policy, owners[i], f.emitted, f.collected, f.lost, o.hooked.Load())
			s.Claim(o.hooked.Load() == int64(f.lost), "%s, %s: tickets and hook agree on %d lost", l.policy, owners[i], f.lost)
			all.add(f)
			hooked += o.hooked.Load()
			refused += int64(o.refused)
		}
		lost := l.end.Front.Dropped + l.end.Front.Evicted
		s.Say("%-14s %-7s %9d %10d %9d   counters\n", l.policy, "all", l.end.Front.Submitted, l.end.Counters.Completed, lost)
		s.Claim(int64(all.lost) == lost && hooked == lost, "%s: tickets %d = hook %d = counters %d lost", l.policy, all.lost, hooked, lost)
		s.Claim(refused == 0 && all.emitted == s.probe.taken && all.emitted == all.collected+all.lost,
			"%s: emitted %d = collected %d + lost %d", l.policy, all.emitted, all.collected, all.lost)
		s.knows(l, all)
		s.ending(l, all)
	}
	s.Say("%s", account.Table())
	s.Claim(account.Evicted > 0 && account.Dropped > 0, "lost in both ways: %d evicted, %d dropped", account.Evicted, account.Dropped)
	s.Claim(account.Balanced(), "the queues' own accounts add up")
	return s.End()
}

// knows tells what can be said of what the collector has never seen.
func (s *story) knows(l *lane, all fate) {
	c := l.collector
	s.Say("  still known: %v measured in all = %v collected + %v lost; the newest collected is number %d of %d\n",
		time.Duration(all.emittedNanos), time.Duration(c.nanos), time.Duration(all.lostNanos), all.lastInLine+1, s.probe.taken)
	s.Say("  by sample only: p50 below %v, p99 below %v; %d bytes of log\n",
		time.Duration(c.quantile(50)), time.Duration(c.quantile(99)), c.written)
	s.Claim(len(c.seen) == all.collected && c.nanos == all.emittedNanos-all.lostNanos,
		"%s: the sum of all samples is known to the nanosecond, of %d that were never seen too", l.policy, all.lost)
}

// ending looks at the newest samples: there the policies differ.
func (s *story) ending(l *lane, all fate) {
	if l.policy.Kind() == policy.KindDropOldest {
		s.Claim(all.newestCollected == newest, "%s: of the newest %d samples %d survived", l.policy, newest, all.newestCollected)
		return
	}
	s.Claim(all.newestCollected == 0, "%s: of the newest %d samples %d survived", l.policy, newest, all.newestCollected)
}
