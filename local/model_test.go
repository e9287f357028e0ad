package local_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// The front against what it should be, written down without any thought of concurrency:
// lists, and one thing after the other.
type model struct {
	t         *rapid.T
	f         *local.Front[int]
	ctx       context.Context // of every call that may wait
	capacity  int
	byteBound int64

	next     int // job
	queued   []modelJob
	taken    []local.Slot[int]
	parked   *modelTake
	waiting  []*modelWaiter
	barriers []modelBarrier
	closed   bool
	told     []int // by Evicted
	want     local.FrontStats
	evicted  []int
	admitted map[int]bool // and not left
}

type modelJob struct {
	id   int
	size int64
}

type modelWaiter struct {
	modelJob
	outcome  *outcome
	cancel   context.CancelFunc
	deadline time.Time
}

type modelTake struct {
	limit    int
	maxBytes int64
	slots    []local.Slot[int]
	err      error
	done     bool
	cancel   context.CancelFunc
}

type modelBarrier struct {
	fell   <-chan struct{}
	before []int
}

func TestFrontBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := &model{t: t, capacity: rapid.IntRange(1, 4).Draw(t, "capacity"), admitted: map[int]bool{}}
			if rapid.Bool().Draw(t, "bounded by bytes") {
				m.byteBound = 100
			}
			f, err := local.NewFront(&local.FrontOptions[int]{
				Capacity: m.capacity, Bytes: m.byteBound, Evicted: func(job int) { m.told = append(m.told, job) },
			})
			if err != nil {
				t.Fatal(err)
			}
			m.f = f
			var cancel context.CancelFunc
			m.ctx, cancel = context.WithCancel(context.Background())
			defer func() { // however it ends, nobody is left in the bubble
				f.Close()
				cancel()
				synctest.Wait()
			}()
			t.Repeat(map[string]func(*rapid.T){
				"admit":   m.admit,
				"wait":    m.wait,
				"cancel":  m.cancel,
				"take":    m.take,
				"park":    m.park,
				"unpark":  m.unpark,
				"release": m.release,
				"barrier": m.barrier,
				"advance": m.advance,
				"close":   m.close,
				"":        m.check,
			})
		})
	})
}

func (m *model) bytes() (n int64) {
	for _, j := range m.queued {
		n += j.size
	}
	for _, s := range m.taken {
		n += s.Size()
	}
	return n
}

func (m *model) held() int { return len(m.queued) + len(m.taken) }

func (m *model) fits(size int64) bool {
	return m.held() < m.capacity && (m.byteBound == 0 || m.bytes()+size <= m.byteBound)
}

func (m *model) enter(j modelJob) {
	m.queued = append(m.queued, j)
	m.admitted[j.id] = true
	m.want.Accepted++
	m.want.HighWater = max(m.want.HighWater, m.held())
}

// settle lets in those who fit, and serves the one who waits for jobs.
func (m *model) settle() {
	for len(m.waiting) > 0 && m.fits(m.waiting[0].size) {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.enter(w.modelJob)
		synctest.Wait()
		if !w.outcome.accepted() {
			m.t.Fatalf("waiter %d should be in: %v", w.id, w.outcome)
		}
		w.cancel()
	}
	synctest.Wait()
	if p := m.parked; p != nil && len(m.queued) > 0 {
		if !p.done || p.err != nil {
			m.t.Fatalf("Take should have returned: %+v", p)
		}
		m.parked = nil
		p.cancel()
		m.took(p.slots, p.limit, p.maxBytes)
	}
}

// took compares what was taken with what should have been.
func (m *model) took(slots []local.Slot[int], limit int, maxBytes int64) {
	n, bytes := 0, int64(0)
	for n < min(limit, len(m.queued)) && (n == 0 || bytes+m.queued[n].size <= maxBytes) {
		bytes += m.queued[n].size
		n++
	}
	if len(slots) != n {
		m.t.Fatalf("took %v, want %v", slots, m.queued[:n])
	}
	for i, s := range slots {
		if s.Job != m.queued[i].id || s.Size() != m.queued[i].size {
			m.t.Fatalf("took %v, want %v", slots, m.queued[:n])
		}
	}
	m.queued = m.queued[n:]
	m.taken = append(m.taken, slots...)
}

func (m *model) newJob(t *rapid.T) modelJob {
	m.next++
	return modelJob{m.next, rapid.Int64Range(0, 110).Draw(t, "size")}
}

func (m *model) rejects(err error, reason policy.Reason) {
	m.want.Rejected[reason]++
	if rej, ok := errors.AsType[*policy.Rejection](err); !ok || rej.Reason != reason {
		m.t.Fatalf("got %v, want %v", err, reason)
	}
}

// entrance is what every call passes before its policy counts. It reports whether it is decided.
func (m *model) entrance(j modelJob, p policy.Policy, done, ok bool, err error) bool {
	m.want.Submitted++
	switch {
	case m.closed:
		m.rejects(err, policy.ReasonClosed)
	case m.byteBound > 0 && j.size > m.byteBound:
		m.rejects(err, policy.ReasonTooLarge)
	case p.Kind() == policy.KindShed:
		m.rejects(err, policy.ReasonShed)
	case len(m.waiting) == 0 && m.fits(j.size):
		m.enter(j)
		if !done || !ok || err != nil {
			m.t.Fatalf("%v of %d should be in: %v, %v", j, m.capacity, ok, err)
		}
	default:
		return false
	}
	return true
}

func (m *model) admit(t *rapid.T) {
	j := m.newJob(t)
	p := rapid.SampledFrom([]policy.Policy{
		policy.Reject(), policy.DropIncoming(), policy.DropOldest(), policy.DropOldest(), policy.Shed(),
	}).Draw(t, "policy")
	ok, err := m.f.Admit(t.Context(), j.id, j.size, p)
	if !m.entrance(j, p, true, ok, err) {
		switch p.Kind() {
		case policy.KindDropIncoming:
			m.want.Dropped++
			if ok || err != nil {
				t.Fatalf("not dropped: %v, %v", ok, err)
			}
		case policy.KindDropOldest:
			if m.displace(j) {
				if !ok || err != nil {
					t.Fatalf("not in: %v, %v", ok, err)
				}
				break
			}
			fallthrough
		default:
			m.rejects(err, policy.ReasonFull)
		}
	}
	m.settle()
}

func (m *model) displace(j modelJob) bool {
	slots, bytes := 1, int64(0)
	if m.byteBound > 0 {
		bytes = j.size
	}
	if len(m.waiting) == 0 {
		slots -= m.capacity - m.held()
		if m.byteBound > 0 {
			bytes -= m.byteBound - m.bytes()
		}
	}
	n, sum := 0, int64(0)
	for ; n < slots || sum < bytes; n++ {
		if n == len(m.queued) {
			return false
		}
		sum += m.queued[n].size
	}
	for _, gone := range m.queued[:n] {
		m.evicted = append(m.evicted, gone.id)
		delete(m.admitted, gone.id)
		m.want.Evicted++
	}
	m.queued = m.queued[n:]
	m.enter(j)
	return true
}

func (m *model) wait(t *rapid.T) {
	j := m.newJob(t)
	// No two end in the same instant, for then either may be first.
	limit := rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(t, "limit") + time.Duration(m.next)
	ctx, cancel := context.WithCancel(m.ctx)
	p := policy.Wait(limit)
	if rapid.Bool().Draw(t, "by the context") {
		cancel()
		ctx, cancel = context.WithTimeout(m.ctx, limit)
		p = policy.Wait(0)
	}
	rate := m.f.Stats().DrainRate
	w := &modelWaiter{modelJob: j, cancel: cancel, deadline: time.Now().Add(limit)}
	w.outcome = admitting(ctx, m.f, j.id, j.size, p)
	switch {
	case m.entrance(j, p, w.outcome.done(), w.outcome.accepted(), w.outcome.err()):
		cancel()
	case rate > 0 && float64(len(m.waiting)+1)/rate > limit.Seconds():
		m.rejects(w.outcome.err(), policy.ReasonPredicted)
		cancel()
	case w.outcome.done():
		t.Fatalf("did not wait: %v", w.outcome)
	default:
		m.waiting = append(m.waiting, w)
	}
	m.settle()
}

// leave is a waiter's end without a slot.
func (m *model) leave(i int, reason policy.Reason) {
	w := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	synctest.Wait()
	m.rejects(w.outcome.err(), reason)
	w.cancel()
	m.settle()
}

func (m *model) cancel(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("nobody waits")
	}
	i := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "waiter")
	m.waiting[i].cancel()
	m.leave(i, policy.ReasonCancelled)
}

func (m *model) advance(t *rapid.T) {
	end := time.Now().Add(rapid.SampledFrom([]time.Duration{time.Millisecond, 700 * time.Millisecond}).Draw(t, "by"))
	for {
		first := -1
		for i, w := range m.waiting {
			if w.deadline.Before(end) && (first < 0 || w.deadline.Before(m.waiting[first].deadline)) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		<-time.After(time.Until(m.waiting[first].deadline))
		m.leave(first, policy.ReasonTimeout)
	}
	<-time.After(time.Until(end))
}

func (m *model) take(t *rapid.T) {
	if m.parked != nil {
		t.Skip("one goroutine at a time")
	}
	limit, maxBytes := rapid.IntRange(1, 4).Draw(t, "limit"), rapid.Int64Range(0, 150).Draw(t, "max bytes")
	if len(m.queued) == 0 {
		m.took(m.f.TryTake(nil, limit, maxBytes), limit, maxBytes)
		return
	}
	slots, err := m.f.Take(t.Context(), nil, limit, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	m.took(slots, limit, maxBytes)
}

func (m *model) park(t *rapid.T) {
	if m.parked != nil || len(m.queued) > 0 {
		t.Skip("there is something to take")
	}
	ctx, cancel := context.WithCancel(m.ctx)
	p := &modelTake{
		limit: rapid.IntRange(1, 4).Draw(t, "limit"), maxBytes: rapid.Int64Range(0, 150).Draw(t, "max bytes"), cancel: cancel,
	}
	go func() {
		p.slots, p.err = m.f.Take(ctx, nil, p.limit, p.maxBytes)
		p.done = true
	}()
	synctest.Wait()
	m.parked = p
}

func (m *model) unpark(t *rapid.T) {
	if m.parked == nil {
		t.Skip("nobody waits for jobs")
	}
	m.parked.cancel()
	synctest.Wait()
	if !errors.Is(m.parked.err, context.Canceled) || len(m.parked.slots) > 0 {
		t.Fatalf("%+v", m.parked)
	}
	m.parked = nil
}

func (m *model) release(t *rapid.T) {
	if len(m.taken) == 0 {
		t.Skip("nothing is taken")
	}
	some := rapid.SampledFrom(m.taken).Draw(t, "up to")
	from := rapid.IntRange(0, slices.Index(m.taken, some)).Draw(t, "from")
	slots := slices.Clone(m.taken[from : slices.Index(m.taken, some)+1])
	m.taken = slices.Delete(m.taken, from, from+len(slots))
	for _, s := range slots {
		delete(m.admitted, s.Job)
	}
	m.want.Released += int64(len(slots))
	m.f.Release(slots...)
	m.settle()
}

func (m *model) barrier(*rapid.T) {
	b := modelBarrier{fell: m.f.Barrier()}
	for id := range m.admitted {
		b.before = append(b.before, id)
	}
	m.barriers = append(m.barriers, b)
}

func (m *model) close(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "really") > 0 {
		t.Skip("most runs go on for longer")
	}
	m.f.Close()
	m.closed = true
	synctest.Wait()
	for _, w := range m.waiting {
		m.rejects(w.outcome.err(), policy.ReasonClosed)
		w.cancel()
	}
	m.waiting = nil
}

func (m *model) check(t *rapid.T) {
	synctest.Wait()
	m.want.Length, m.want.Capacity, m.want.Queued, m.want.Waiting = m.held(), m.capacity, len(m.queued), len(m.waiting)
	m.want.Bytes, m.want.ByteCapacity = m.bytes(), m.byteBound
	got := m.f.Stats()
	m.want.DrainRate = got.DrainRate
	if got != m.want {
		t.Fatalf("got  %+v\nwant %+v", got, m.want)
	}
	if !slices.Equal(m.told, m.evicted) {
		t.Fatalf("told of %v, evicted %v", m.told, m.evicted)
	}
	for _, w := range m.waiting {
		if w.outcome.done() {
			t.Fatalf("waiter %d gave up: %v", w.id, w.outcome)
		}
	}
	for _, b := range m.barriers {
		stands := slices.ContainsFunc(b.before, func(id int) bool { return m.admitted[id] })
		if isClosed(b.fell) == stands {
			t.Fatalf("the barrier behind %v stands: %v, still there are %v", b.before, !stands, m.admitted)
		}
	}
}
