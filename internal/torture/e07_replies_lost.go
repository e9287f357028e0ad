package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// loseReplies: replies are lost, at random and at each exact place, in each way a network has.
func loseReplies(l *lab) {
	server := l.server(untracked...)
	rdb := l.dial(server.Addr())
	own := l.proxy(server.Addr()) // of the first worker: what it asks, in what order
	watch := watchAsking(own, l.engine())
	shared := l.proxy(server.Addr())
	short := 400 * time.Millisecond
	// Workers that are never idle do not wait: what waits for them is bounded.
	bounded := durable.ListOptions{MaxBacklog: 300}
	for i, p := range []*redisproc.Proxy{own, shared} {
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: p.Addr(), Workers: 8, Timeout: short, SweepEvery: 300 * time.Millisecond, List: bounded})
	}
	producer := l.spawn(role{
		List: bounded, Capacity: 64,
		Name: "producer", Addr: shared.Addr(), Timeout: short, Producers: 4, Rate: 400, Task: task{}, WorkMax: 6, DelayMax: 300,
	})
	memory := l.memory(rdb)
	random := stream(l.set.seed, l.name)
	twice := 0
	pendingTwice := func() {
		ids := l.waiting(rdb)
		slices.Sort(ids)
		twice += len(ids) - len(slices.Compact(ids))
	}
	for _, share := range []float64{0.001, 0.01, 0.05, 0.2} {
		l.say("losing %.1f %% of the replies", 100*share)
		lost := l.loseShare([]*redisproc.Proxy{own, shared}, share, random.Uint64())
		for range pick(l, 3, 30) {
			l.pause(400 * time.Millisecond)
			pendingTwice()
		}
		lost()
	}
	ways := []redisproc.Action{redisproc.FIN, redisproc.RST, redisproc.Swallow, redisproc.Silence}
	hit := 0
	for i, verb := range []string{l.engine().wait, "claim", "append", "settle", "renew", "sweep"} {
		for k, way := range ways {
			if l.set.quick && k != (i+int(l.set.seed%4))%len(ways) {
				continue // the seed turns the wheel
			}
			if l.loseOne(shared, producer, verb, 1+random.IntN(3), way) {
				hit++
			}
			pendingTwice()
		}
	}
	l.settleHeldUp(shared)
	producer.term()
	producer.wait(time.Minute)
	l.drained(rdb, l.name, 30*time.Second)
	l.orphans(rdb)
	l.dismiss()

	h := l.check(rdb, expectation{memory: memory})
	l.figure("targeted", hit)
	l.figure("pending_twice", twice)
	l.figure("client_repeats", watch.count())
	l.require(twice == 0, "%d IDs stood in pending twice", twice)
	l.require(watch.count() == 0, "a client sent by itself, without a pause: %v", watch.seen)
	if h.count["lease lost"] == 0 {
		for id, j := range h.jobs {
			l.require(len(j.runs) <= 1, "%s ran %d times, though no lease ended", id, len(j.runs))
		}
	}
}

// loseShare loses that share of the replies of proxies, until the function it returns is called.
func (l *lab) loseShare(proxies []*redisproc.Proxy, share float64, seed uint64) (stop func()) {
	ways := []redisproc.Action{redisproc.FIN, redisproc.RST, redisproc.Swallow, redisproc.Silence}
	var removes []func()
	for i, p := range proxies {
		var mu sync.Mutex
		random := stream(seed, fmt.Sprint(i))
		removes = append(removes, p.OnReply(func(redisproc.Exchange) redisproc.Action {
			mu.Lock()
			defer mu.Unlock()
			if random.Float64() < share {
				return ways[random.IntN(len(ways))]
			}
			return redisproc.Pass
		}))
	}
	return func() {
		for _, remove := range removes {
			remove()
		}
	}
}

// loseOne loses the n-th reply to a verb in one way. Workers that are never idle, as on a loaded machine, do not wait:
// if it comes to that, the producer stands still meanwhile.
func (l *lab) loseOne(p *redisproc.Proxy, producer *child, verb string, n int, way redisproc.Action) bool {
	done := p.Lose(n, redisproc.With(verb), way)
	lost := func(within time.Duration) bool {
		select {
		case <-done:
			return true
		case <-time.After(within):
			return false
		case <-l.ctx.Done():
			panic(abort{l.ctx.Err()})
		}
	}
	if lost(10 * time.Second) {
		return true
	}
	if verb == l.engine().wait {
		producer.freeze()
		defer producer.thaw()
	}
	hit := lost(30 * time.Second)
	l.require(hit, "no %s was asked within 40 s", verb)
	return hit
}

// settleHeldUp keeps outcomes from being told for longer than a lease, while renewals pass: the
// claims must be kept until their completion is confirmed.
func (l *lab) settleHeldUp(p *redisproc.Proxy) {
	l.say("outcomes are held up for longer than a lease")
	before := l.readHistory().inexcusable()
	settles := redisproc.With("settle")
	remove := p.OnRequest(func(e redisproc.Exchange) redisproc.Action {
		if settles(e) {
			return redisproc.FIN
		}
		return redisproc.Pass
	})
	l.pause(3200 * time.Millisecond)
	remove()
	after := l.readHistory().inexcusable()
	l.require(after == before, "%d leases were lost while outcomes could not be told", after-before)
}

// orphans waits until no consumer holds anything.
func (l *lab) orphans(rdb *redis.Client) {
	ok := l.within(2*time.Second+grace, func() bool {
		p := l.look(rdb, l.name)
		return p.count("processing:") == 0 && p.count("arriving") == 0
	})
	p := l.look(rdb, l.name)
	n := p.count("processing:") + p.count("arriving")
	l.figure("orphans", n)
	l.require(ok, "%d orphans after 2 s", n)
}

// asking watches what one worker asks: nothing is repeated by its client behind its back.
type asking struct {
	wait, key string // how and where it waits
	mu        sync.Mutex
	waits     int // since the last claim
	last      map[string]time.Time
	seen      []string
}

func watchAsking(p *redisproc.Proxy, e *engine) *asking {
	w := &asking{wait: e.wait, key: prefixOf("E07") + e.waitKey, last: map[string]time.Time{}}
	p.OnRequest(func(e redisproc.Exchange) redisproc.Action {
		w.request(e)
		return redisproc.Pass
	})
	return w
}

// request notes what breaks rule 5 of the protocol (whatever ends a wait, a claim is next), or is the same
// request again sooner than the shortest back-off.
func (w *asking) request(e redisproc.Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(e.Args) == 0 {
		return
	}
	switch {
	case strings.EqualFold(e.Args[0], w.wait):
		if w.waits++; w.waits > 1 && slices.Contains(e.Args, w.key) {
			w.seen = append(w.seen, w.wait+" after "+w.wait)
		}
	case strings.EqualFold(e.Args[0], "evalsha"):
		if slices.Contains(e.Args, "claim") {
			w.waits = 0
		}
		if !slices.Contains(e.Args, "claim") && !slices.Contains(e.Args, "settle") {
			return
		}
		text := strings.Join(e.Args, " ")
		if t := time.Since(w.last[text]); t < 20*time.Millisecond {
			w.seen = append(w.seen, fmt.Sprintf("%s after %v", e.Args[len(e.Args)-1], t))
		}
		clear(w.last)
		w.last[text] = time.Now()
	}
}

func (w *asking) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}
