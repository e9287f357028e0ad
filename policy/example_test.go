package policy_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

// The policy goes with the call, because the caller knows what its job is worth.
func ExamplePolicy() {
	for _, p := range []policy.Policy{
		policy.Wait(50 * time.Millisecond), // an importer: it can slow down
		policy.Reject(),                    // a request: 503 with Retry-After
		policy.DropIncoming(),              // a sample more or less
		policy.DropOldest(),                // a position: only the newest counts
		{},                                 // whatever the queue was opened with
	} {
		fmt.Println(p)
	}
	// Output:
	// wait(50ms)
	// reject
	// drop-incoming
	// drop-oldest
	// default
}

// A controlled delay, as CoDel has it: when even the luckiest job of the last 100 ms waited
// longer than the target there is a standing queue, and only what can still be quick is let in.
func ExampleFunc() {
	const target = 5 * time.Millisecond
	controlled := policy.Func(func(s policy.Snapshot) policy.Policy {
		if s.MinSojourn > target && s.HeadSojourn > 2*target {
			return policy.Shed()
		}
		return policy.Wait(target)
	})

	for _, s := range []policy.Snapshot{
		{MinSojourn: time.Millisecond, HeadSojourn: 80 * time.Millisecond}, // a burst
		{MinSojourn: 40 * time.Millisecond, HeadSojourn: 80 * time.Millisecond},
	} {
		plan, err := controlled.Plan(s)
		fmt.Println(plan, err)
	}
	// Output:
	// wait(5ms) <nil>
	// shed <nil>
}

// What a handler of requests makes of a rejection.
func ExampleRejection() {
	submit := func() error { // stands for a call of the queue
		return &policy.Rejection{
			Reason: policy.ReasonFull, Depth: 1024, Capacity: 1024, RetryAfter: 1500 * time.Millisecond,
		}
	}

	err := submit()
	if rej, ok := errors.AsType[*policy.Rejection](err); ok && errors.Is(err, policy.ErrFull) {
		fmt.Printf("503, Retry-After: %.0f\n", rej.RetryAfter.Seconds())
	}
	fmt.Println(err)
	// Output:
	// 503, Retry-After: 2
	// policy: refused by the front stage: full, 1024/1024 jobs, retry after 1.5s
}

func ExampleRetry() {
	retry := policy.Retry{
		MaxAttempts: 5,
		Initial:     time.Second,
		Max:         10 * time.Second,
		Jitter:      1e-9, // practically none, to have something to print
	}
	if err := retry.Validate(); err != nil {
		fmt.Println(err)
	}
	for failed := 1; failed < retry.MaxAttempts; failed++ {
		fmt.Println(retry.Delay(failed).Round(time.Millisecond))
	}
	fmt.Println(policy.Retry{Max: -time.Second}.Validate())
	// Output:
	// 1s
	// 2s
	// 4s
	// 8s
	// policy: Retry.Max is negative: -1s
}

// Made once, used at every call: early refusals while jobs stay too long, else a short wait.
func ExampleCoDel() {
	inTime := policy.CoDel(5*time.Millisecond, policy.Wait(20*time.Millisecond))
	for _, s := range []policy.Snapshot{
		{MinSojourn: time.Millisecond, HeadSojourn: 80 * time.Millisecond},      // a burst
		{MinSojourn: 40 * time.Millisecond, HeadSojourn: 80 * time.Millisecond}, // a standing queue
	} {
		plan, err := inTime.Plan(s)
		fmt.Println(plan, err)
	}
	// Output:
	// wait(20ms) <nil>
	// shed <nil>
}

// Halfway between the marks every second call is refused.
func ExampleRamp() {
	early := policy.Ramp(0.5, 0.9, policy.Reject())
	shed := 0
	for range 1000 {
		plan, err := early.Plan(policy.Snapshot{Length: 70, Capacity: 100})
		if err != nil {
			fmt.Println(err)
		}
		if plan.Kind() == policy.KindShed {
			shed++
		}
	}
	fmt.Println(early, "refuses", shed, "of 1000 at 70%")
	// Output:
	// ramp(50% to 90%, reject) refuses 500 of 1000 at 70%
}
