package policy_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-9dec4fca/weir/policy"
)

func TestRetryValidate(t *testing.T) {
	t.Parallel()
	bad := map[string]policy.Retry{
		"Retry.MaxAttempts": {MaxAttempts: -1},
		"Retry.Initial":     {Initial: -1},
		"Retry.Max":         {Max: -1},
		"Retry.Multiplier":  {Multiplier: -1},
		"Retry.Jitter":      {Jitter: -0.1},
		"Retry.Initial is":  {Initial: 400 * 24 * time.Hour},
		"Retry.Max is":      {Max: math.MaxInt64},
		"less than":         {Initial: time.Minute, Max: time.Second},
		"at least 1":        {Multiplier: 0.5},
		"1: NaN":            {Multiplier: math.NaN()},
		"1: +Inf":           {Multiplier: math.Inf(1)},
		"below 1":           {Jitter: 1},
		"below 1: NaN":      {Jitter: math.NaN()},
	}
	for text, r := range bad {
		t.Run("refused by name: "+text, func(t *testing.T) {
			t.Parallel()
			if err := r.Validate(); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("Validate() = %v", err)
			}
		})
	}
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		for _, r := range []policy.Retry{
			{},
			{MaxAttempts: 1, Initial: time.Hour, Multiplier: 1, Jitter: 0.99},
			{Max: time.Millisecond}, // shorter than the default Initial
			policy.Retry{}.WithDefaults(),
		} {
			if err := r.Validate(); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
			if d := r.WithDefaults(); d.Max < d.Initial {
				t.Errorf("%+v: defaults turn it upside down: %+v", r, d)
			}
		}
	})
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	t.Run("grows, with jitter, up to the maximum", func(t *testing.T) {
		t.Parallel()
		r := policy.Retry{Initial: time.Second, Max: time.Minute, Multiplier: 3, Jitter: 0.2}
		for failed, base := range map[int]time.Duration{
			-1: time.Second, 0: time.Second, 1: time.Second, 2: 3 * time.Second, 3: 9 * time.Second,
			4: 27 * time.Second, 5: time.Minute, 6: time.Minute, 1000: time.Minute, math.MaxInt: time.Minute,
		} {
			low, high := base*8/10, base*12/10
			different := map[time.Duration]bool{}
			for range 50 {
				d := r.Delay(failed)
				if d < low || d > high+1 {
					t.Fatalf("after %d failures %v, want %v to %v", failed, d, low, high)
				}
				different[d] = true
			}
			if len(different) < 40 {
				t.Errorf("after %d failures only %d different delays of 50", failed, len(different))
			}
		}
	})
	t.Run("has no hidden end", func(t *testing.T) {
		t.Parallel()
		// backoff/v4 answers Stop, -1, where a delay would end after 15 minutes, unless told otherwise.
		synctest.Test(t, func(t *testing.T) {
			r := policy.Retry{Max: time.Hour}
			begin := time.Now()
			for failed := 1; time.Since(begin) < 7*24*time.Hour; failed++ {
				d := r.Delay(failed)
				if d <= 0 {
					t.Fatalf("after %v: %v", time.Since(begin), d)
				}
				time.Sleep(d)
			}
		})
	})
	t.Run("the longest possible does not overflow", func(t *testing.T) {
		t.Parallel()
		year := 365 * 24 * time.Hour
		r := policy.Retry{Initial: year, Max: year, Multiplier: math.MaxFloat32, Jitter: 0.999}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if d := r.Delay(10_000); d < 0 {
				t.Fatalf("negative: %v", d)
			}
		}
	})
	t.Run("is safe for concurrent use", func(t *testing.T) {
		t.Parallel()
		var r policy.Retry
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for failed := range 1000 {
					r.Delay(failed)
				}
			})
		}
		wg.Wait()
	})
}

var sinkDelay time.Duration

func BenchmarkRetryDelay(b *testing.B) {
	b.ReportAllocs()
	var r policy.Retry
	for b.Loop() {
		sinkDelay = r.Delay(12)
	}
}
