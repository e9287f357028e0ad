package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

func TestRejectionMatchesItsSentinels(t *testing.T) {
	t.Parallel()
	sentinels := []error{
		policy.ErrFull, policy.ErrClosed, policy.ErrTooLarge, policy.ErrInvalid, policy.ErrUnusable,
		context.Canceled, context.DeadlineExceeded,
	}
	want := map[policy.Reason]error{
		policy.ReasonFull:      policy.ErrFull,
		policy.ReasonTimeout:   policy.ErrFull,
		policy.ReasonPredicted: policy.ErrFull,
		policy.ReasonCancelled: context.Canceled,
		policy.ReasonClosed:    policy.ErrClosed,
		policy.ReasonTooLarge:  policy.ErrTooLarge,
		policy.ReasonInvalid:   policy.ErrInvalid,
		policy.ReasonUnusable:  policy.ErrUnusable,
		policy.ReasonShed:      policy.ErrFull,
	}
	if len(want) != int(policy.NumReasons) {
		t.Fatalf("%d reasons are tested, there are %d", len(want), policy.NumReasons)
	}
	for reason := range policy.NumReasons {
		t.Run(reason.String()+" and nothing else", func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("submit: %w", &policy.Rejection{Reason: reason})
			for _, s := range sentinels {
				if got := errors.Is(err, s); got != (s == want[reason]) { //nolint:errorlint // the very sentinel
					t.Errorf("errors.Is(%v, %v) = %v", err, s, got)
				}
			}
			if rej, ok := errors.AsType[*policy.Rejection](err); !ok || rej.Reason != reason {
				t.Errorf("AsType: %v, %v", rej, ok)
			}
		})
	}
	t.Run("the cause as well", func(t *testing.T) {
		t.Parallel()
		err := error(&policy.Rejection{Reason: policy.ReasonTimeout, Cause: context.DeadlineExceeded})
		if !errors.Is(err, policy.ErrFull) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v matches not both", err)
		}
	})
}

func TestRejectionMessage(t *testing.T) {
	t.Parallel()
	rej := &policy.Rejection{
		Reason: policy.ReasonTimeout, Stage: policy.StageDurable,
		Depth: 7, Capacity: 8, Bytes: 100, ByteCapacity: 200,
		Waited: 50 * time.Millisecond, RetryAfter: 2 * time.Second,
		Cause: errors.New("boom"),
	}
	want := "policy: refused by the durable stage: timeout, 7/8 jobs, 100/200 bytes, waited 50ms, retry after 2s: boom"
	if got := rej.Error(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := (&policy.Rejection{Capacity: 8}).Error(), "policy: refused by the front stage: full, 0/8 jobs"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	seen := map[string]bool{}
	for reason := range policy.NumReasons {
		if text := reason.String(); seen[text] || strings.Contains(text, "(") || strings.Contains(text, "success") {
			t.Errorf("reason %d is called %q", reason, text)
		}
		seen[reason.String()] = true
	}
}
