package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// reasons are those for which an overload can refuse a call. Another one would show in the
// sum of its row.
var reasons = []policy.Reason{policy.ReasonFull, policy.ReasonTimeout, policy.ReasonPredicted, policy.ReasonShed}

// table has a row for each policy. Its sums are checked by whoever reads it:
//
//	submitted = accepted + full + timeout + predicted + shed + dropped
//	accepted  = completed + evicted
func table(trials []*trial) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %9s %8s", "policy", "submitted", "accepted")
	for _, r := range reasons {
		fmt.Fprintf(&b, " %9s", r)
	}
	fmt.Fprintf(&b, " %8s %8s %9s %8s %8s %8s %6s\n", "dropped", "evicted", "completed", "goodput", "p50", "p99", "filled")
	for _, t := range trials {
		s := t.stats
		fmt.Fprintf(&b, "%-16s %9d %8d", t.name, s.Front.Submitted, s.Front.Accepted)
		for _, r := range reasons {
			fmt.Fprintf(&b, " %9d", s.Front.Rejected[r])
		}
		fmt.Fprintf(&b, " %8d %8d %9d %8.2f %8s %8s %6d\n", s.Front.Dropped, s.Front.Evicted, s.Completed,
			t.goodput(), short(t.stayed(50)), short(t.stayed(99)), t.turned.Load())
	}
	b.WriteString("\n" +
		"full to shed: refused, for that reason       goodput: done a second, as a share of what can be done\n" +
		"p50, p99: from the call to its job's begin   filled: how often the pool was reported full, with hysteresis\n")
	return b.String()
}

// short is a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
