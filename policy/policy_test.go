package policy_test

import (
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	plain := func(policy.Snapshot) policy.Policy { return policy.Reject() }
	cases := []struct {
		p    policy.Policy
		kind policy.Kind
		text string
	}{
		{policy.Policy{}, policy.KindDefault, "default"},
		{policy.Wait(0), policy.KindWait, "wait"},
		{policy.Wait(50 * time.Millisecond), policy.KindWait, "wait(50ms)"},
		{policy.Reject(), policy.KindReject, "reject"},
		{policy.DropIncoming(), policy.KindDropIncoming, "drop-incoming"},
		{policy.DropOldest(), policy.KindDropOldest, "drop-oldest"},
		{policy.Shed(), policy.KindShed, "shed"},
		{policy.Func(plain), policy.KindFunc, "func"},
	}
	for _, c := range cases {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			if got := c.p.Kind(); got != c.kind {
				t.Errorf("Kind() = %v, want %v", got, c.kind)
			}
			if got := c.p.String(); got != c.text {
				t.Errorf("String() = %q, want %q", got, c.text)
			}
			if got, want := c.p.IsZero(), c.kind == policy.KindDefault; got != want {
				t.Errorf("IsZero() = %v, want %v", got, want)
			}
			if err := c.p.Validate(); err != nil {
				t.Errorf("Validate() = %v", err)
			}
		})
	}
	t.Run("an unknown kind, reason or stage still prints", func(t *testing.T) {
		t.Parallel()
		got := policy.Kind(99).String() + " " + policy.Reason(99).String() + " " + policy.Stage(99).String()
		if want := "kind(99) reason(99) stage(99)"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPolicyInvalid(t *testing.T) {
	t.Parallel()
	nested := policy.Func(func(policy.Snapshot) policy.Policy { return policy.Func(nil) })
	negative := policy.Func(func(policy.Snapshot) policy.Policy { return policy.Wait(-1) })
	cases := map[string]struct {
		p    policy.Policy
		want string
	}{
		"negative wait":             {policy.Wait(-time.Second), "policy: Wait: negative: -1s"},
		"nil decide":                {policy.Func(nil), "policy: Func: decide is nil"},
		"decide returns a Func":     {nested, "policy: Func: decide returned another Func"},
		"decide returns an invalid": {negative, "policy: Wait: negative: -1ns"},
	}
	for name, c := range cases {
		t.Run(name+" is refused by name", func(t *testing.T) {
			t.Parallel()
			_, err := c.p.Plan(policy.Snapshot{})
			if err == nil || err.Error() != c.want {
				t.Errorf("Plan: %v, want %q", err, c.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	asked := 0
	p := policy.Func(func(s policy.Snapshot) policy.Policy {
		asked++
		if s.Length > 5 {
			return policy.Shed()
		}
		return policy.Policy{}
	})
	for length, want := range map[int]policy.Kind{5: policy.KindDefault, 6: policy.KindShed} {
		plan, err := p.Plan(policy.Snapshot{Length: length})
		if err != nil || plan.Kind() != want {
			t.Errorf("length %d: plan %v, %v, want %v", length, plan, err, want)
		}
	}
	if asked != 2 {
		t.Errorf("decide was asked %d times for 2 plans", asked)
	}
	if plan, err := policy.Wait(time.Second).Plan(policy.Snapshot{}); err != nil || plan.Max() != time.Second {
		t.Errorf("a plain policy is not its own plan: %v, %v", plan, err)
	}
}

func TestPoliciesCostNoAllocation(t *testing.T) { //nolint:paralleltest // allocations are counted per process
	decide := func(policy.Snapshot) policy.Policy { return policy.Reject() }
	kinds := 0
	n := testing.AllocsPerRun(100, func() {
		for _, p := range [...]policy.Policy{
			policy.Wait(time.Second), policy.Reject(), policy.DropIncoming(), policy.DropOldest(), policy.Shed(), policy.Func(decide),
		} {
			plan, err := p.Plan(policy.Snapshot{Length: 1})
			if err == nil {
				kinds += int(plan.Kind())
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
