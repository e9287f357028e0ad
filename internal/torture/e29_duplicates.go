package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redisproc"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// submitTwice: processes submit the same IDs, and others jobs with the same unique keys, all at once, while producers and workers
// are killed, replies are lost and what is uncertain is submitted again. There is one job of an ID, and one at a time of a
// key; the tickets of duplicates end as the first one did; and in the end every key is free.
func submitTwice(l *lab) {
	const each, workers, keys, rate = 3, 2, 8, 50
	server := l.server()
	rdb := l.dial(server.Addr())
	shared := l.proxy(server.Addr())
	started := 0
	begin := func(kind string, first int) *child {
		r := role{
			Name: fmt.Sprint(kind, started), Addr: shared.Addr(), Timeout: 400 * time.Millisecond, Producers: 2, Rate: rate, First: max(first, 0),
			Task: task{Work: 5, Sign: true}, WorkMax: 60, DelayMax: 500, Retention: time.Hour, Mixed: true, Watch: true, Again: true,
			PersistWithin: time.Second, Wait: 20 * time.Second,
		}
		switch kind {
		case "worker":
			r = role{Name: r.Name, Addr: shared.Addr(), Timeout: r.Timeout, Workers: 16, SweepEvery: 300 * time.Millisecond}
		case "same":
			r.IDs = "same"
		case "key":
			r.Keys = keys
		}
		started++
		return l.spawn(r)
	}
	crew := map[string][]*child{}
	for range workers {
		crew["worker"] = append(crew["worker"], begin("worker", 0))
	}
	held := l.scan(rdb, scanKeys)
	began := time.Now()
	for range each {
		crew["same"] = append(crew["same"], begin("same", 0))
		crew["key"] = append(crew["key"], begin("key", 0))
	}
	stop := l.loseShare([]*redisproc.Proxy{shared}, 0.01, l.set.seed)
	random, kills := stream(l.set.seed, l.name), 0
	for i := range pick(l, 6, 60) {
		l.pause(300*time.Millisecond + time.Duration(random.IntN(500))*time.Millisecond)
		kind := []string{"worker", "same", "key"}[i%3]
		k := random.IntN(len(crew[kind]))
		crew[kind][k].kill()
		kills++
		crew[kind][k] = begin(kind, int(time.Since(began).Seconds()*rate)-random.IntN(2*rate)) // it may submit what it has submitted
		if i%3 == 2 {
			heal := shared.Blackhole()
			l.pause(1500 * time.Millisecond) // PersistWithin, and more
			heal()
		}
	}
	stop()
	l.enough(rdb, 30*time.Second, slices.Concat(crew["same"], crew["key"])...)
	held.judge(l)
	l.freeKeys(rdb, keys)
	l.drained(rdb, l.name, 10*time.Second)
	l.dismiss()

	h := l.check(rdb, expectation{refusals: true, removed: 1})
	p := l.look(rdb, l.name)
	l.checkTickets(h, p)
	l.allTold(h)
	l.checkHolders(h, keys)
	l.figure("kills", kills)
	l.figure("duplicates", h.count["duplicate"])
	l.require(h.count["duplicate"] > 100, "%d duplicates: nothing was seen", h.count["duplicate"])
}

// checkHolders sees that no two jobs ran while they had the same key: one has it from before its first start to after the end of its
// last run.
func (l *lab) checkHolders(h *history, keys int) {
	type stay struct {
		id       string
		from, to int64
	}
	stays := map[int][]stay{}
	for id, j := range h.jobs {
		var n int
		actor := actorOf(id)
		if _, err := fmt.Sscanf(id, actor+".%d", &n); err != nil || len(actor) < 3 || actor[:3] != "key" {
			continue
		}
		s := stay{id: id}
		for _, r := range j.runs {
			if since(h.fate(r.A).lost, r.T) {
				continue // it may be over without knowing
			}
			if s.from == 0 {
				s.from = r.T
			}
			s.to = max(s.to, r.T, r.end)
		}
		if s.from > 0 {
			stays[n%keys] = append(stays[n%keys], s)
		}
	}
	holders := 0
	for key, all := range stays {
		slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
		holders += len(all)
		for i := 1; i < len(all); i++ {
			before, next := all[i-1], all[i]
			l.require(before.to <= next.from, "%s began %v before %s had ended, with the same key %d", next.id, time.Duration(before.to-next.from), before.id, key)
		}
	}
	l.figure("holders", holders)
}

// freeKeys sees that keys are free once their holders have ended, in whatever way, and not before.
func (l *lab) freeKeys(rdb *redis.Client, keys int) {
	client := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr})
	l.later(func() { _ = client.Close() })
	store, err := durable.NewRedis(client, nil)
	l.must(err)
	q, err := bridge.Open(l.open(store), nil)
	l.must(err)
	defer func() {
		_, err := q.Shutdown(l.ctx)
		l.must(err)
	}()
	drills := bridge.NewKind[task](q, drill, nil)
	submit := func(key, name string, how bridge.Job[task]) *bridge.Ticket {
		how.ID, how.Unique.Key, how.Retention = key+"."+name, key, time.Hour
		t, err := drills.SubmitJob(l.ctx, how, policy.Wait(5*time.Second))
		l.must(err)
		return t
	}
	ends := func(t *bridge.Ticket, as local.State) {
		ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second+grace)
		defer cancel()
		err := t.Wait(ctx)
		l.require(t.State() == as, "the ticket of %s is %v, want %v: %v", t.ID(), t.State(), as, err)
	}
	free := func(key string) {
		t := submit(key, "next", bridge.Job[task]{})
		ends(t, local.Completed)
		l.require(t.Duplicate() == "", "the key %s is still that of %s", key, t.Duplicate())
	}
	for k := range keys {
		free(fmt.Sprint("key", k))
	}
	for how, first := range map[local.State]bridge.Job[task]{
		local.Completed: {Value: task{Work: 200}},
		local.Dead:      {Value: task{Work: 200, Do: "permanent"}},
		local.Cancelled: {Delay: time.Hour},
		local.Expired:   {Value: task{}, Delay: 500 * time.Millisecond, Expiry: 400 * time.Millisecond},
	} {
		key := how.String()
		t := submit(key, "first", first)
		l.must(t.WaitEnqueued(l.ctx))
		again := submit(key, "second", bridge.Job[task]{})
		l.require(l.within(5*time.Second, func() bool { return again.Duplicate() != "" || again.State().Ended() }) && again.Duplicate() == t.ID(),
			"%s is a duplicate of %q, and %s has the key", again.ID(), again.Duplicate(), t.ID())
		if how == local.Cancelled {
			_, err := q.Cancel(l.ctx, t.ID())
			l.must(err)
		}
		ends(t, how)
		ends(again, how)
		free(key)
	}
	t := submit("deleted", "first", bridge.Job[task]{Delay: time.Second})
	l.must(t.WaitEnqueued(l.ctx))
	l.do(rdb, "DEL", prefixOf(l.name)+"job:"+t.ID())
	free("deleted")
}
