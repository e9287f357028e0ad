package durabletest

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
)

func pagePromises() []promise {
	return []promise{
		{"the jobs of each state are shown in their order, page by page", Limits{}, func(q *queue) {
			w := q.worker()
			var names []string
			for _, j := range jobs(25) {
				names = append(names, j.ID)
			}
			q.store(jobs(25)...)
			show := func(when string, state durable.State, want []string) {
				q.Helper()
				for _, limit := range []int{1, 7, 25, 0, 1000} {
					got := recordIDs(q.pages(durable.JobsRequest{State: state, Limit: limit}))
					if got != strings.Join(want, " ") {
						q.Errorf("%s: %s by %d: %q, want %q", when, state, limit, got, want)
					}
				}
			}
			show("stored", durable.StatePending, names)
			claims := w.take(10)
			show("claimed", durable.StateProcessing, names[:10])
			show("claimed", durable.StatePending, names[10:])
			var outcomes []durable.Outcome
			for i, c := range claims[:6] {
				o := outcome(c, durable.Snooze)
				o.Delay = time.Duration(60-i) * time.Minute
				outcomes = append(outcomes, o)
			}
			w.settle(outcomes...)
			backwards := slices.Clone(names[:6])
			slices.Reverse(backwards)
			show("snoozed", durable.StateScheduled, backwards)
			for _, c := range claims[6:] {
				w.settle(outcome(c, durable.Dead))
				q.pause(2 * time.Millisecond)
			}
			show("dead", durable.StateDead, names[6:10])
			show("all settled", durable.StateProcessing, nil)
			show("all settled", durable.StateCompleted, nil)
			show("all settled", durable.StateCorrupt, nil)
		}},
		{"what is scheduled is shown with all that it has", Limits{}, func(q *queue) {
			all := []*durable.Job{
				{ID: "plain"}, {ID: "headers", Headers: []byte(`{"h":"1"}`)}, {ID: "retention", Retention: time.Hour}, {ID: "attempts", MaxAttempts: 3},
			}
			for i, j := range all {
				j.Delay = time.Duration(i+1) * time.Hour
			}
			q.store(all...)
			for i, r := range q.pages(durable.JobsRequest{State: durable.StateScheduled}) {
				if j := all[i]; r.ID != j.ID || r.Retention != j.Retention || r.MaxAttempts != j.MaxAttempts {
					q.Errorf("%+v, want %+v", r, j)
				}
				all[i] = nil
			}
			if left := len(slices.DeleteFunc(all, func(j *durable.Job) bool { return j == nil })); left > 0 {
				q.Errorf("%d are not shown", left)
			}
		}},
		{"claims of several consumers are all shown", Limits{}, func(q *queue) {
			q.store(jobs(30)...)
			for range 5 {
				q.worker().take(6)
			}
			q.worker()
			for _, limit := range []int{1, 4, 6, 0} {
				all := q.pages(durable.JobsRequest{State: durable.StateProcessing, Limit: limit})
				by := map[string]int{}
				seen := map[string]bool{}
				for _, r := range all {
					by[r.Consumer]++
					seen[r.ID] = true
				}
				if len(all) != 30 || len(seen) != 30 || len(by) != 5 {
					q.Errorf("by %d: %d records of %d jobs of %d consumers", limit, len(all), len(seen), len(by))
				}
			}
		}},
		{"a filter shows what it means and nothing else", Limits{}, func(q *queue) {
			w := q.worker()
			other := &durable.Job{ID: "other"}
			q.kill(w, "disk is full", job("a"), other)
			q.pause(300 * time.Millisecond)
			q.kill(w, "net is down", job("b"))
			for _, c := range []struct {
				filter durable.Filter
				want   string
			}{
				{durable.Filter{}, "a other b"},
				{durable.Filter{Kinds: []string{"kind"}}, "a b"},
				{durable.Filter{Kinds: []string{""}}, "other"},
				{durable.Filter{Kinds: []string{"", "kind"}}, "a other b"},
				{durable.Filter{Kinds: []string{"none"}}, ""},
				{durable.Filter{Reason: "is full"}, "a other"},
				{durable.Filter{Reason: "%a+"}, ""},
				{durable.Filter{OlderThan: 200 * time.Millisecond}, "a other"},
				{durable.Filter{OlderThan: time.Hour}, ""},
				{durable.Filter{OlderThan: 200 * time.Millisecond, Kinds: []string{"kind"}, Reason: "full"}, "a"},
			} {
				got := strings.Fields(recordIDs(q.pages(durable.JobsRequest{State: durable.StateDead, Filter: c.filter, Limit: 1})))
				want := strings.Fields(c.want)
				slices.Sort(got) // those of one millisecond come in any order
				slices.Sort(want)
				if !slices.Equal(got, want) {
					q.Errorf("%+v: %q, want %q", c.filter, got, want)
				}
			}
		}},
		{"a page asked for badly is refused by name", Limits{}, func(q *queue) {
			for says, r := range map[string]durable.JobsRequest{
				`state "gone"`:     {State: "gone"},
				`state ""`:         {},
				"Limit":            {State: durable.StateDead, Limit: -1},
				"Filter.OlderThan": {State: durable.StateDead, Filter: durable.Filter{OlderThan: -1}},
				"since when":       {State: durable.StatePending, Filter: durable.Filter{OlderThan: 1}},
			} {
				_, err := q.operator().Jobs(q.ctx, r)
				q.misused(err, says)
			}
		}},
	}
}
