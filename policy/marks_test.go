package policy_test

import (
	"math"
	"strings"
	"testing"

	"github.com/seed-9dec4fca/weir/policy"
)

func TestMarks(t *testing.T) {
	t.Parallel()

	t.Run("between the marks nothing changes", func(t *testing.T) {
		t.Parallel()
		m := policy.Marks{High: 0.8, Low: 0.4}
		for _, c := range []struct {
			was  bool
			fill float64
			want bool
		}{
			{false, 0, false},
			{false, 0.4, false},
			{false, 0.79, false},
			{false, 0.8, true},
			{false, 1, true},
			{true, 1, true},
			{true, 0.8, true},
			{true, 0.41, true},
			{true, 0.4, false},
			{true, 0, false},
		} {
			if got := m.Full(c.was, c.fill); got != c.want {
				t.Errorf("was %v, at %v: %v", c.was, c.fill, got)
			}
		}
	})

	t.Run("zero means full at 1, no longer at half of that", func(t *testing.T) {
		t.Parallel()
		if got := (policy.Marks{}).WithDefaults(); got != (policy.Marks{High: 1, Low: 0.5}) {
			t.Errorf("%+v", got)
		}
		if got := (policy.Marks{High: 0.6}).WithDefaults(); got.Low != 0.3 {
			t.Errorf("%+v", got)
		}
	})

	for field, marks := range map[string][]policy.Marks{
		"Marks.High": {{High: -1}, {High: 1.1}, {High: math.NaN()}},
		"Marks.Low":  {{Low: -0.1}, {Low: 1}, {High: 0.3, Low: 0.3}, {Low: math.NaN()}},
	} {
		t.Run("a bad "+field+" is refused by name", func(t *testing.T) {
			t.Parallel()
			for _, m := range marks {
				if err := m.Validate(); err == nil || !strings.Contains(err.Error(), field) {
					t.Errorf("%+v: %v", m, err)
				}
			}
		})
	}
}
