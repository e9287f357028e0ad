package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

// ErrNoRecord is why a ticket ends detached when the store has nothing of its job any more: it has completed, was cancelled, has
// expired or was deleted, and nobody was told. Job.Retention keeps a record.
var ErrNoRecord = errors.New("bridge: the store has no record of the job: it has ended, and how is not known")

// looked is called when somebody looks at a ticket for the first time.
func (f *following) looked(t *local.Ticket, era uint32) {
	f.lastLook.Store(int64(f.q.now()))
	if f.unlooked.Load() != 0 {
		f.unlooked.Store(0)
	}
	switch state := t.State(); {
	case state.Ended():
		return
	case state == local.Accepted: // stored will see that it is looked at
		if f.covered.Load() == 0 { // if it is not too late it is told of from the beginning
			f.mu.Lock()
			f.wanted = true
			f.mu.Unlock()
		}
		return
	}
	id := t.ID()
	if first := t.Duplicate(); first != "" {
		id = first
	}
	if era == 0 { // it shares what becomes of another one
		if p := f.q.watched.Find(id); p != nil {
			era, _ = p.Origin()
		}
	}
	if era != 0 && era == f.covered.Load() {
		f.read()
		return
	}
	f.ask(id)
}

// ask has the store asked what jobs are, and this process told of them from then on.
func (f *following) ask(ids ...string) {
	f.mu.Lock()
	f.wanted = true
	for _, id := range ids {
		if _, asked := f.asks[id]; !asked {
			f.asks[id] = nil
		}
	}
	f.mu.Unlock()
	f.begin(&f.asking, f.answer)
}

// askResult has it asked for the result of a job that has completed.
func (f *following) askResult(p *local.Promise, id string) {
	f.mu.Lock()
	older := f.asks[id]
	f.asks[id] = p
	f.mu.Unlock()
	if older != nil && older != p {
		f.over(older, id)
	}
	f.ask(id)
}

// over completes the ticket of a job that has completed and whose record is over, as that of one whose ID is another's.
func (f *following) over(p *local.Promise, id string) {
	f.q.heard(ending{p: p, id: id, state: local.Completed})
}

// askAll asks for all that is looked at.
func (f *following) askAll() {
	if ids := f.q.watched.LookedAt(math.MaxInt); len(ids) > 0 {
		f.ask(ids...)
	}
}

// begin starts one of the loops, if it is not under way.
func (f *following) begin(under *atomic.Bool, loop func()) {
	if f.ctx.Err() == nil && under.CompareAndSwap(false, true) && !f.q.calls.begin(loop) {
		under.Store(false)
	}
}

// answer is the loop that asks, until there is nothing to ask.
func (f *following) answer() {
	p := f.q.storePacer("ask for jobs")
	for f.ctx.Err() == nil {
		err := f.askSome()
		if err != nil {
			sleep(f.ctx, p.fail(err))
			continue
		}
		p.ok()
		f.asking.Store(false)
		f.mu.Lock()
		none := len(f.asks) == 0
		f.mu.Unlock()
		if none || !f.asking.CompareAndSwap(false, true) {
			break
		}
	}
	f.read()
}

// askSome makes one exchange about as many as it can.
func (f *following) askSome() error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
	var ids []string
	var whose []*local.Promise // those of now: one that is enqueued later is not meant by the answer
	var known []bool           // whether it has completed
	var over []ending
	f.mu.Lock()
	for id, completed := range f.asks {
		if len(ids) == maxBatch {
			break
		}
		delete(f.asks, id)
		p := f.q.watched.Find(id)
		if completed != nil && completed != p {
			over = append(over, ending{p: completed, id: id})
		}
		if p != nil && p.Ticket().State() != local.Accepted {
			ids, whose, known = append(ids, id), append(whose, p), append(known, completed == p)
		}
	}
	f.mu.Unlock()
	for _, e := range over {
		f.over(e.p, e.id)
	}
	if len(ids) == 0 {
		return nil
	}
	records, err := f.follow(f.ctx, ids)
	for i, p := range whose {
		switch {
		case err == nil:
			f.record(p, ids[i], records[i], known[i])
		case !known[i]:
			f.ask(ids[i])
		case f.q.watched.Find(ids[i]) == p:
			f.askResult(p, ids[i])
		default:
			f.over(p, ids[i])
		}
	}
	return err
}

// follow is Follower.Follow, by a follower that the store knows. turn is held.
func (f *following) follow(ctx context.Context, ids []string) ([]durable.Record, error) {
	for again := true; ; again = false {
		follower, err := f.arrange(ctx, true)
		if err != nil {
			return nil, err
		}
		records, err := call(ctx, f.q, callTimeout, func(ctx context.Context) ([]durable.Record, error) {
			return follower.Follow(ctx, ids)
		})
		switch {
		case err == nil:
			f.mu.Lock()
			f.called = f.q.now()
			f.mu.Unlock()
			return records, nil
		case !errors.Is(err, durable.ErrNoSender):
			return nil, err
		}
		f.lost(follower)
		if !again {
			return nil, err
		}
	}
}

// record brings a ticket where the store says that its job is; completed: it is known to have. turn is held.
func (f *following) record(p *local.Promise, id string, r durable.Record, completed bool) {
	if r.State != "" {
		f.identify(p, r)
	}
	_, life := p.Origin()
	now := f.life(r.Life)
	switch {
	case completed && (r.State != durable.StateCompleted || now != life):
		f.over(p, id)
	case r.State == "" || now != life:
		f.miss(p, id)
	default:
		f.q.bring(p, id, r)
	}
}

// miss notes that the store has no record of the job of a ticket, which need not be watched from then on. What became of it may have
// been noted, and not be read yet.
func (f *following) miss(p *local.Promise, id string) {
	if !f.later(ending{p: p, id: id, state: local.Detached, cause: ErrNoRecord}) {
		p.End(local.Detached, ErrShutdown) // it may not be watched any more
	}
}

// superseded takes up that the job of a ticket, if one is given, has ended, for its ID was free for another one: how may have been noted,
// if anybody has looked.
func (q *Queue) superseded(p *local.Promise, id string) {
	f := &q.following
	if p == nil || p.Ticket().State().Ended() {
		return
	}
	f.mu.Lock()
	completed := f.asks[id] == p
	if completed {
		f.asks[id] = nil
	}
	room := len(f.endings) < q.opts.MaxWatched
	f.mu.Unlock()
	switch {
	case completed:
		f.over(p, id)
	case f.engine != nil && p.LookedAt() && room:
		f.miss(p, id)
		f.read()
	default:
		p.End(local.Detached, ErrNoRecord)
	}
}

// later has news tell of an end, and reports false after Shutdown.
func (f *following) later(e ending) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return false
	}
	e.when = f.q.now()
	f.endings = append(f.endings, e)
	return true
}

// identify takes the job that has the ID to be that of a ticket that was asked for by the ID, if nothing else is known. turn is held.
func (f *following) identify(p *local.Promise, r durable.Record) {
	if _, life := p.Origin(); life == 0 && p.IsOf(f.life(r.Life)) {
		p.SetOrigin(f.covered.Load(), f.life(r.Life))
	}
}

// join asks for jobs under whose IDs tickets wait to share what becomes of them, and has take called with what each is, with turn
// held.
func (f *following) join(ctx context.Context, ids []string, take func(durable.Record)) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return because(durable.ErrNotExecuted, context.Cause(ctx))
	}
	whose, lives := make([]*local.Promise, len(ids)), make([]uint64, len(ids)) // of now: one that comes later may be of another life
	for i, id := range ids {
		if whose[i] = f.q.watched.Find(id); whose[i] != nil {
			_, lives[i] = whose[i].Origin()
		}
	}
	records, err := f.follow(ctx, ids)
	for i, r := range records {
		switch p := whose[i]; {
		case p == nil || r.State == "":
		case lives[i] == 0:
			f.identify(p, r)
		case lives[i] != f.life(r.Life) && f.q.watched.Find(ids[i]) == p: // that one is over, and how may have been noted
			f.q.watched.Forget(ids[i], p)
			f.miss(p, ids[i])
			f.read()
		}
		take(r)
	}
	return err
}

// Follow gives a ticket for a job that is in the store, whoever has submitted it, for example this process before it was started
// again. What others make of the job is told as for a job that was submitted here; it has no more to it than any other ticket of this
// process for the same job.
//
// Errors: durable.ErrNoJob if there is none (any more: Job.Retention keeps a record), durable.ErrUnsupported if the engine
// cannot do it, an id that is empty or longer than durable.MaxIDBytes, and those of every exchange with the store. After Shutdown
// it matches policy.ErrClosed. It blocks until the store answers or ctx ends.
func (q *Queue) Follow(ctx context.Context, id string) (*Ticket, error) {
	f := &q.following
	if err := validateLength("follow: the ID", id, durable.MaxIDBytes); err != nil {
		return nil, err
	}
	if f.engine == nil {
		return nil, fmt.Errorf("bridge: follow: %w: it does not tell what becomes of jobs", durable.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	p := f.share(id) // before the question: what this process does meanwhile is told by itself
	known, over, err := f.bringShared(ctx, p, id)
	if over {
		p = f.share(id)
		known, _, err = f.bringShared(ctx, p, id)
	}
	switch {
	case err != nil || f.ctx.Err() != nil:
		err = q.followFailed(err)
	case !known && !p.Ticket().State().Ended():
		err = fmt.Errorf("bridge: follow: %w: %q", durable.ErrNoJob, id)
	default:
		return p.Ticket(), nil
	}
	q.watched.Leave(id, p)
	return nil, err
}

// share makes a promise that shares what becomes of the job with that ID.
func (f *following) share(id string) *local.Promise {
	p := new(local.Promise)
	p.InitFor(&f.lookout, id)
	f.q.shared.Store(true)
	f.q.watched.Join(id, p)
	return p
}

// bringShared asks what the job with the ID is, and brings what p shares there. over: that has turned out to be of a life that is over.
func (f *following) bringShared(ctx context.Context, p *local.Promise, id string) (known, over bool, err error) {
	err = f.join(ctx, []string{id}, func(r durable.Record) {
		known = r.State != ""
		first := f.q.watched.Find(id)
		switch s := p.Ticket().State(); {
		case !known:
		case s == local.Detached || !s.Ended() && first == nil:
			over = true
		case first != nil && first.IsOf(f.life(r.Life)):
			f.q.bring(first, id, r)
		}
	})
	return known, over && err == nil, err
}

func (q *Queue) followFailed(err error) error {
	if q.following.ctx.Err() != nil {
		err = ErrShutdown
	}
	return fmt.Errorf("bridge: follow: %w", err)
}

// refresh asks for all that is looked at, if that was last done long ago.
func (f *following) refresh(last *time.Duration) {
	if now := f.q.now(); now-*last >= askAllEvery {
		*last = now
		f.askAll()
	}
}
