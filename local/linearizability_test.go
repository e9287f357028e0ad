package local_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/anishathalye/porcupine"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// The front under many callers behaves as a bounded queue that is used by one caller after the other: for every
// history of calls and answers there is an order of the calls, true to what came before what, in which each answer is
// the right one. Its state is in the lists below; whoever waits is not part of it, because a wait that is granted is a
// call that came when there was room.

// frontCall is one call; an admission by its policy.
type frontCall struct {
	op  frontOp
	job rune // admitted
	n   int  // slots released
}

type frontOp string

const (
	opReject       frontOp = "reject"
	opDropIncoming frontOp = "drop incoming"
	opDropOldest   frontOp = "drop oldest"
	opWait         frontOp = "wait"
	opTake         frontOp = "take" // a Take of several is several, in the same time
	opTryTake      frontOp = "try take"
	opRelease      frontOp = "release"
	opClose        frontOp = "close"
)

// frontAnswer is what a call came to.
type frontAnswer struct {
	what answer
	job  rune // taken
}

type answer string

const (
	accepted answer = "accepted"
	dropped  answer = "dropped"
	full     answer = "full"
	closed   answer = "closed"
	gaveUp   answer = "gave up" // its context was cancelled
	taken    answer = "taken"
	nothing  answer = "nothing"
	done     answer = "done"
)

// boundedQueue is the front without concurrency.
type boundedQueue struct {
	held   int
	closed bool
	queue  string // the jobs that are queued, the oldest first
}

// step tells whether the answer is right, and what comes of the call.
func (s boundedQueue) step(capacity int, c frontCall, a frontAnswer) (bool, boundedQueue) {
	isFull := s.held == capacity
	switch {
	case c.op == opRelease:
		s.held -= c.n
		return s.held >= 0, s
	case c.op == opClose:
		s.closed = true
		return true, s
	case a.what == nothing:
		return s.queue == "", s
	case a.what == taken:
		first, size := utf8.DecodeRuneInString(s.queue)
		if size == 0 || first != a.job {
			return false, s
		}
		s.queue = s.queue[size:]
		return true, s
	case a.what == gaveUp:
		return c.op == opWait, s
	case a.what == closed || s.closed:
		return a.what == closed && s.closed, s
	case a.what == dropped:
		return c.op == opDropIncoming && isFull, s
	case a.what == full:
		return isFull && (c.op == opReject || c.op == opWait || c.op == opDropOldest && s.queue == ""), s
	case !isFull:
		s.held++
	case c.op == opDropOldest && s.queue != "":
		_, size := utf8.DecodeRuneInString(s.queue)
		s.queue = s.queue[size:]
	default:
		return false, s
	}
	s.queue += string(c.job)
	return true, s
}

func frontModel(capacity int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return boundedQueue{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(boundedQueue).step(capacity, input.(frontCall), output.(frontAnswer))
		},
	}
}

// frontHistory records calls while they are made.
type frontHistory struct {
	f    *local.Front[rune]
	tick atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

// call makes a call and notes it with each of its answers.
func (h *frontHistory) call(client int, c frontCall, do func() []frontAnswer) {
	begin := h.tick.Add(1)
	h.note(client, begin, c, do()...)
}

// note adds what began then, and has ended now.
func (h *frontHistory) note(client int, begin int64, c frontCall, answers ...frontAnswer) {
	end := h.tick.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range answers {
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: c, Call: begin, Output: a, Return: end})
	}
}

func (h *frontHistory) String() string {
	var b strings.Builder
	slices.SortFunc(h.ops, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	for _, o := range h.ops {
		c, a := o.Input.(frontCall), o.Output.(frontAnswer)
		fmt.Fprintf(&b, "%4d-%-4d %d: %s %d (%d) -> %s %d\n", o.Call, o.Return, o.ClientId, c.op, c.job, c.n, a.what, a.job)
	}
	return b.String()
}

// admit asks for a slot in one of the ways.
func (h *frontHistory) admit(client int, job rune, rng *rand.Rand) {
	ops := []frontOp{opReject, opDropIncoming, opDropOldest, opWait, opWait}
	op := ops[rng.IntN(len(ops))]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := map[frontOp]policy.Policy{
		opReject: policy.Reject(), opDropIncoming: policy.DropIncoming(), opDropOldest: policy.DropOldest(),
		opWait: policy.Wait(time.Duration(1+rng.IntN(300)) * time.Microsecond),
	}[op]
	if op == opWait && rng.IntN(3) == 0 {
		p = policy.Wait(patience)
		defer time.AfterFunc(time.Duration(rng.IntN(300))*time.Microsecond, cancel).Stop()
	}
	h.call(client, frontCall{op: op, job: job}, func() []frontAnswer {
		ok, err := h.f.Admit(ctx, job, 0, p)
		a := frontAnswer{what: accepted}
		switch {
		case err == nil && !ok:
			a.what = dropped
		case errors.Is(err, policy.ErrFull):
			a.what = full
		case errors.Is(err, policy.ErrClosed):
			a.what = closed
		case errors.Is(err, context.Canceled):
			a.what = gaveUp
		case err != nil:
			a.what = answer(err.Error())
		}
		return []frontAnswer{a}
	})
}

// took are the answers to one call that took these.
func took(slots []local.Slot[rune]) (all []frontAnswer) {
	for _, s := range slots {
		all = append(all, frontAnswer{what: taken, job: s.Job})
	}
	return all
}

func TestFrontIsLinearizable(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const histories, searching = 150, 3 * patience // the search is long for some, and slow beside others
	counts := map[answer]int{}
	for i := range histories {
		capacity := []int{1, 2, 3, 8}[i%4]
		h := record(t, capacity, seed+uint64(i), i%3 == 0)
		switch porcupine.CheckOperationsTimeout(frontModel(capacity), h.ops, searching) {
		case porcupine.Illegal:
			t.Fatalf("history %d, capacity %d: no order of these calls explains the answers:\n%v", i, capacity, h)
		case porcupine.Unknown:
			t.Fatalf("history %d, capacity %d: not decided within %v:\n%v", i, capacity, searching, h)
		case porcupine.Ok:
		}
		for _, o := range h.ops {
			counts[o.Output.(frontAnswer).what]++
		}
	}
	for _, a := range []answer{accepted, dropped, full, closed, gaveUp, taken, nothing, done} {
		if counts[a] == 0 {
			t.Errorf("no call was answered %q: these histories show nothing about it (%v)", a, counts)
		}
	}
}

// record makes a history: producers, the one who takes, those who release, and perhaps one who closes in the middle. It
// checks besides that the jobs which were displaced are those whose owners were told.
func record(t *testing.T, capacity int, seed uint64, closing bool) *frontHistory {
	t.Helper()
	const producers, each = 5, 14
	told := make(chan rune, producers*each)
	h := &frontHistory{f: newFront(t, &local.FrontOptions[rune]{Capacity: capacity, Evicted: func(job rune) { told <- job }})}
	rng := func(client int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(client))) }
	slots := make(chan []local.Slot[rune], producers*each)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var producing, others sync.WaitGroup
	for client := range producers {
		producing.Go(func() {
			r := rng(client)
			for n := range each {
				h.admit(client, rune(1+client*each+n), r)
			}
		})
	}
	others.Go(func() {
		defer close(slots)
		r, empty := rng(producers), false
		for ctx.Err() == nil {
			limit := 1 + r.IntN(3)
			if empty || r.IntN(2) == 0 {
				empty = false
				h.call(producers, frontCall{op: opTake}, func() []frontAnswer {
					got, _ := h.f.Take(ctx, nil, limit, 1)
					slots <- got
					return took(got)
				})
				continue
			}
			h.call(producers, frontCall{op: opTryTake}, func() []frontAnswer {
				got := h.f.TryTake(nil, limit, 1)
				slots <- got
				if empty = len(got) == 0; empty {
					return []frontAnswer{{what: nothing}}
				}
				return took(got)
			})
		}
	})
	for i := range 2 {
		others.Go(func() {
			client := producers + 1 + i
			for got := range slots {
				if len(got) > 0 {
					h.call(client, frontCall{op: opRelease, n: len(got)}, func() []frontAnswer {
						h.f.Release(got...)
						return []frontAnswer{{what: done}}
					})
				}
			}
		})
	}
	if closing {
		producing.Go(func() {
			<-time.After(time.Duration(rng(99).IntN(1500)) * time.Microsecond)
			h.call(producers+3, frontCall{op: opClose}, func() []frontAnswer {
				h.f.Close()
				return []frontAnswer{{what: done}}
			})
		})
	}
	producing.Wait()
	cancel()
	others.Wait()

	fate := map[rune]int{}
	for _, s := range h.f.Drain() {
		fate[s.Job]++
	}
	close(told)
	for job := range told {
		fate[job]++
	}
	for _, o := range h.ops {
		switch a := o.Output.(frontAnswer); a.what {
		case taken:
			fate[a.job]++
		case accepted:
			fate[o.Input.(frontCall).job]--
		}
	}
	for job, n := range fate {
		if n != 0 {
			t.Errorf("job %d: %d fates too many", job, n)
		}
	}
	return h
}
