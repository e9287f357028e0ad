package policy_test

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

const ms = time.Millisecond

func planned(t testing.TB, p policy.Policy, s policy.Snapshot) policy.Policy {
	t.Helper()
	plan, err := p.Plan(s)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestCoDel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		target    time.Duration
		min, head time.Duration
		shed      bool
	}{
		"an idle front lets everything in":                       {0, 0, 0, false},
		"a burst is let in, however long its jobs stay":          {0, 5 * ms, time.Hour, false},
		"overloaded, but quick enough just now":                  {0, 6 * ms, 10 * ms, false},
		"overloaded, and beyond twice the target":                {0, 6 * ms, 11 * ms, true},
		"another target, within it":                              {time.Second, time.Second, time.Hour, false},
		"another target, overloaded and within twice of it":      {time.Second, 1001 * ms, 2 * time.Second, false},
		"another target, overloaded and beyond twice the target": {time.Second, 1001 * ms, 2001 * ms, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := policy.KindWait
			if c.shed {
				want = policy.KindShed
			}
			plan := planned(t, policy.CoDel(c.target, policy.Wait(time.Second)), policy.Snapshot{MinSojourn: c.min, HeadSojourn: c.head})
			if plan.Kind() != want {
				t.Errorf("%v", plan)
			}
		})
	}
}

func TestRamp(t *testing.T) {
	t.Parallel()
	at := func(length int) policy.Snapshot { return policy.Snapshot{Length: length, Capacity: 100} }

	t.Run("the share that is refused grows from mark to mark, and is met closely", func(t *testing.T) {
		t.Parallel()
		for length, want := range map[int]float64{0: 0, 50: 0, 55: 0.125, 60: 0.25, 70: 0.5, 85: 0.875, 90: 1, 100: 1} {
			p := policy.Ramp(0.5, 0.9, policy.Policy{})
			shed := 0
			for n := 1; n <= 10_000; n++ {
				if planned(t, p, at(length)).Kind() == policy.KindShed {
					shed++
				}
				if off := math.Abs(float64(shed) - want*float64(n)); off > 2+math.Log2(float64(n)) {
					t.Fatalf("at %d %%: %d of %d refused, want %v of them", length, shed, n, want)
				}
			}
		}
	})

	t.Run("also by callers at once, without a lock", func(t *testing.T) {
		t.Parallel()
		p := policy.Ramp(0, 1, policy.Policy{})
		var shed atomic.Int64
		var wg sync.WaitGroup
		const callers, each = 8, 5000
		for range callers {
			wg.Go(func() {
				for range each {
					if planned(t, p, at(30)).Kind() == policy.KindShed {
						shed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if off := math.Abs(float64(shed.Load()) - 0.3*callers*each); off > 20 {
			t.Errorf("%d of %d", shed.Load(), callers*each)
		}
	})

	t.Run("by whatever is fullest", func(t *testing.T) {
		t.Parallel()
		p := policy.Ramp(0.5, 0.9, policy.Reject())
		for name, s := range map[string]policy.Snapshot{
			"slots":   {Length: 9, Capacity: 10},
			"bytes":   {Capacity: 10, Bytes: 95, ByteCapacity: 100},
			"backlog": {Capacity: 10, Backlog: 1},
		} {
			if planned(t, p, s).Kind() != policy.KindShed {
				t.Errorf("full of %s, and not refused", name)
			}
		}
		if planned(t, p, policy.Snapshot{}).Kind() != policy.KindReject {
			t.Error("nothing known, and refused")
		}
	})
}

func TestReadyPolicies(t *testing.T) {
	t.Parallel()

	t.Run("say what they are", func(t *testing.T) {
		t.Parallel()
		for want, p := range map[string]policy.Policy{
			"codel(5ms, default)":                        policy.CoDel(0, policy.Policy{}),
			"codel(20ms, wait(1s))":                      policy.CoDel(20*ms, policy.Wait(time.Second)),
			"ramp(50% to 90.5%, reject)":                 policy.Ramp(0.5, 0.905, policy.Reject()),
			"codel(5ms, ramp(10% to 100%, drop-oldest))": policy.CoDel(0, policy.Ramp(0.1, 1, policy.DropOldest())),
		} {
			if p.String() != want || p.Kind() != policy.KindFunc || p.Validate() != nil {
				t.Errorf("%q, want %q; %v, %v", p, want, p.Kind(), p.Validate())
			}
		}
	})

	t.Run("can be put together", func(t *testing.T) {
		t.Parallel()
		p := policy.CoDel(0, policy.Ramp(0.5, 0.9, policy.DropIncoming()))
		for _, c := range []struct {
			s    policy.Snapshot
			want policy.Kind
		}{
			{policy.Snapshot{Capacity: 10}, policy.KindDropIncoming},
			{policy.Snapshot{Capacity: 10, Length: 9}, policy.KindShed},
			{policy.Snapshot{Capacity: 10, MinSojourn: time.Second, HeadSojourn: time.Second}, policy.KindShed},
		} {
			if plan := planned(t, p, c.s); plan.Kind() != c.want {
				t.Errorf("%+v: %v", c.s, plan)
			}
		}
	})

	for want, p := range map[string]policy.Policy{
		"policy: CoDel: target is negative":               policy.CoDel(-1, policy.Reject()),
		"policy: Wait: negative":                          policy.CoDel(0, policy.Wait(-1)),
		"policy: Func: decide is nil":                     policy.Ramp(0, 1, policy.Func(nil)),
		"policy: Ramp: not 0 <= from < to <= 1: 0.5, 0.5": policy.Ramp(0.5, 0.5, policy.Policy{}),
		"policy: Ramp: not 0 <= from < to <= 1: -1, 0.5":  policy.Ramp(-1, 0.5, policy.Policy{}),
		"policy: Ramp: not 0 <= from < to <= 1: 0, 1.1":   policy.Ramp(0, 1.1, policy.Policy{}),
		"policy: Ramp: not 0 <= from < to <= 1: NaN, 1":   policy.Ramp(math.NaN(), 1, policy.Policy{}),
	} {
		t.Run("misuse is refused by name: "+want, func(t *testing.T) {
			t.Parallel()
			if _, err := p.Plan(policy.Snapshot{}); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func TestReadyPoliciesCostNoAllocation(t *testing.T) { //nolint:paralleltest // allocations are counted per process
	codel, ramp := policy.CoDel(0, policy.Reject()), policy.Ramp(0, 1, policy.Reject())
	s := policy.Snapshot{Length: 5, Capacity: 10, MinSojourn: time.Second, HeadSojourn: time.Second}
	n := testing.AllocsPerRun(100, func() {
		for _, p := range [...]policy.Policy{codel, ramp} {
			if _, err := p.Plan(s); err != nil {
				t.Error(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReadyPolicies(b *testing.B) {
	s := policy.Snapshot{Length: 5, Capacity: 10, MinSojourn: ms, HeadSojourn: ms}
	for name, p := range map[string]policy.Policy{
		"baseline=func": policy.Func(func(policy.Snapshot) policy.Policy { return policy.Reject() }),
		"codel":         policy.CoDel(0, policy.Reject()),
		"ramp":          policy.Ramp(0, 1, policy.Reject()),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				planned(b, p, s)
			}
		})
	}
}
