package bridge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/local"
)

const (
	// readPause is between two reads when there is much to read, so that they are not as many as jobs.
	readPause = time.Millisecond
	// readWithin is in what time all that the store keeps for a follower is read.
	readWithin = 5 * time.Second
	// tellWithin is for how long an end that is known is left to the consumer that is about to tell it.
	tellWithin = 5 * time.Second
)

// read has the notices of the store read, from now on until no ticket that is open is looked at.
func (f *following) read() { f.begin(&f.reading, f.news) }

// news is the loop that reads them. Whatever ends a wait for news, at most a second, leads to a look whether anybody still wants
// to know.
func (f *following) news() {
	p := f.q.storePacer("read what becomes of jobs")
	asked := f.q.now()
	for f.ctx.Err() == nil {
		some, err := f.await()
		switch {
		case err != nil:
			f.conclude(0, false)
			if f.idle() {
				return
			}
			sleep(f.ctx, p.fail(err))
		case some:
			p.ok()
			sleep(f.ctx, readPause)
		case f.idle():
			return
		default:
			p.ok()
		}
		f.refresh(&asked)
	}
}

// idle ends the loop if nobody wants to know. A look that comes now starts it again, or its ticket is seen here.
func (f *following) idle() bool {
	f.reading.Store(false)
	f.mu.Lock()
	none := len(f.endings) == 0
	f.mu.Unlock()
	return none && len(f.q.watched.LookedAt(1)) == 0 || !f.reading.CompareAndSwap(false, true)
}

// await waits for news and tells it. some: there was some.
func (f *following) await() (some bool, err error) {
	select {
	case f.turn <- struct{}{}:
	case <-f.ctx.Done():
		return false, f.ctx.Err()
	}
	follower, err := f.arrange(f.ctx, true)
	<-f.turn
	if err != nil {
		return false, err
	}
	asked := f.q.now()
	news, err := call(f.ctx, f.q, durable.Park+callTimeout, func(ctx context.Context) (durable.News, error) {
		return follower.Await(ctx)
	})
	switch {
	case errors.Is(err, durable.ErrNoSender):
		f.lost(follower)
		return true, nil // at once again, with another one
	case err != nil:
		return false, err
	}
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.mu.Lock()
	f.called = f.q.now()
	f.mu.Unlock()
	for i := range news.Notices {
		f.notice(&news.Notices[i])
	}
	if news.Gap {
		f.end() // and begins anew with the next look at what is to be arranged: nothing
	}
	f.conclude(asked, len(news.Notices) == 0 && !news.Gap)
	return len(news.Notices) > 0 || news.Gap, nil
}

// conclude ends the tickets whose time has come. Those of jobs that have ended wait for the consumer of this process whose run of the job
// has ended too, and tellWithin at most. Those of jobs that the store has no record of wait for all that had been noted to be read, and
// for the consumer that has the job. asked: when the store was asked for what was read last; all: that was all.
func (f *following) conclude(asked time.Duration, all bool) {
	now := f.q.now()
	f.mu.Lock()
	var over []ending
	kept := f.endings[:0]
	for _, e := range f.endings {
		_, life := e.p.Origin()
		var due bool
		if e.state == local.Detached {
			due = e.when <= asked && (all || asked-e.when > readWithin) && !f.holding(e.id, life, false)
		} else {
			due = now-e.when > tellWithin || !f.holding(e.id, life, true)
		}
		if due {
			over = append(over, e)
		} else {
			kept = append(kept, e)
		}
	}
	clear(f.endings[len(kept):])
	f.endings = kept
	f.mu.Unlock()
	for _, e := range over {
		f.q.apply(e)
	}
}

// mayTell tells whether a consumer of this process may be about to tell of the end of a job. That it may have one whose ticket it does
// not know of, for that came to share the end later, matters only if there is an error: to find out takes long.
func (f *following) mayTell(p *local.Promise, id string, end local.State) bool {
	_, life := p.Origin()
	return p.Claimed() || end != local.Completed && f.holds(id, life, true)
}

// has tells whether a consumer of this process has the job of p, with that ID, for certain: none whose run has ended, as the store may
// know of that, nor one whose lease is lost.
func (f *following) has(p *local.Promise, id string) bool {
	if !p.Claimed() || p.Ticket().State().Ended() {
		return false
	}
	_, life := p.Origin()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.holds(id, life, s.alive()) {
			return false
		}
	}
	return !slices.ContainsFunc(f.left, func(s *session) bool { return s.holds(id, life, false) })
}

// holds tells whether a consumer of this process has the job with that ID and of that life; 0: of any. ended: whether it has one whose
// run has ended, and that the store is about to be told of.
func (f *following) holds(id string, life uint64, ended bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holding(id, life, ended)
}

// holding is holds while mu is held.
func (f *following) holding(id string, life uint64, ended bool) bool {
	for _, s := range f.sessions {
		if s.holds(id, life, ended) {
			return true
		}
	}
	return slices.ContainsFunc(f.left, func(s *session) bool { return s.holds(id, life, true) })
}

// notice brings the tickets of a job where it says: the one that is watched, else one that was, and the one under way. It can have
// waited here for long, and be of an earlier life of the ID. And a stand-in of no life yet is being asked for. turn is held.
func (f *following) notice(n *durable.Notice) {
	life := f.life(n.Life)
	is := func(p *local.Promise) bool {
		if p == nil {
			return false
		}
		_, its := p.Origin()
		return its == life
	}
	sent := f.q.sent.find(n.ID) // first: a job leaves it after it is watched
	p := f.q.watched.Find(n.ID)
	if !is(p) {
		p = nil
		f.mu.Lock()
		if i := slices.IndexFunc(f.endings, func(e ending) bool { return e.id == n.ID && is(e.p) }); i >= 0 {
			p = f.endings[i].p
		}
		f.mu.Unlock()
	}
	if p == nil {
		p = f.q.watched.Passed(n.ID, life)
	}
	if p != nil {
		f.noticed(p, life, n, false)
	}
	if sent != p && is(sent) {
		f.noticed(sent, life, n, true)
	}
}

// noticed brings one ticket there. sent: the store has not answered the append of its job, or that has not been taken up.
func (f *following) noticed(p *local.Promise, life uint64, n *durable.Notice, sent bool) {
	switch n.What {
	case durable.NoticeStarted:
		p.HeardStarted()
	case durable.NoticeProgress:
		p.MarkProgress(n.Data)
	case durable.NoticeRequeued:
		p.HeardRequeued()
	case durable.NoticeCompleted:
		switch {
		case !n.Kept || !sent && f.q.watched.Find(n.ID) != p: // the ID was free again: the record is over
			f.q.heard(ending{p: p, id: n.ID, state: local.Completed, result: n.Data})
		case sent: // quicker than the answer to the append; stored asks
			p.SetOrigin(0, life)
		default:
			f.askResult(p, n.ID)
		}
	case durable.NoticeDead:
		f.q.heard(ending{p: p, id: n.ID, state: local.Dead, cause: errors.New(n.Reason)})
	case durable.NoticeCancelled:
		f.q.heard(ending{p: p, id: n.ID, state: local.Cancelled})
	case durable.NoticeExpired:
		f.q.heard(ending{p: p, id: n.ID, state: local.Expired})
	case durable.NoticeGone:
		f.q.heard(ending{p: p, id: n.ID, state: local.Cancelled, cause: ErrGone})
	}
}
