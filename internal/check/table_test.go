package check_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/internal/check"
)

var sound = check.Table{
	"submitted": 100, "accepted": 60, "rejected": 30, "rejected, full": 25, "rejected, predicted": 5, "dropped": 10,
	"evicted": 7, "refused": 1, "abandoned": 1, "uncertain": 1, "duplicate": 0, "cancelled": 0, "expired": 0, "in memory": 0, "enqueued": 50,
	"completed": 48, "retried": 3, "dead": 2,
}

func TestReadTable(t *testing.T) {
	t.Parallel()

	t.Run("the table is found between other lines", func(t *testing.T) {
		t.Parallel()
		got, err := check.ReadTable(strings.NewReader(
			"hello  1\n\njobs\n  submitted        12\n  rejected, full    3\n\nlatency\n  accept  1ms\n"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(check.Table{"submitted": 12, "rejected, full": 3}, got); diff != "" {
			t.Error(diff)
		}
	})

	for name, text := range map[string]string{
		"no table is an error":                 "submitted  12\n",
		"a row without a count is an error":    "jobs\n  submitted\n",
		"a count that is no number is one too": "jobs\n  submitted  many\n",
		"a row that comes twice is one too":    "jobs\n  dead  1\n  dead  1\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := check.ReadTable(strings.NewReader(text)); err == nil {
				t.Errorf("read %v", got)
			}
		})
	}
}

func TestConserved(t *testing.T) {
	t.Parallel()

	t.Run("what adds up is accepted", func(t *testing.T) {
		t.Parallel()
		if err := sound.Conserved(); err != nil {
			t.Error(err)
		}
	})

	t.Run("one job too many or too few is found in any row of a sum", func(t *testing.T) {
		t.Parallel()
		for name := range sound {
			if name == "retried" {
				continue // a job may be retried any number of times
			}
			for _, by := range []int64{-1, 1} {
				broken := maps.Clone(sound)
				broken[name] += by
				if broken.Conserved() == nil {
					t.Errorf("%s %+d was not noticed", name, by)
				}
			}
		}
	})

	t.Run("a row that is not there is named", func(t *testing.T) {
		t.Parallel()
		broken := maps.Clone(sound)
		delete(broken, "uncertain")
		if err := broken.Conserved(); err == nil || !strings.Contains(err.Error(), `"uncertain"`) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a run in which nothing was completed proves nothing", func(t *testing.T) {
		t.Parallel()
		idle := maps.Clone(sound)
		for name := range idle {
			idle[name] = 0
		}
		if idle.Conserved() == nil {
			t.Error("zeroes were accepted")
		}
	})
}
