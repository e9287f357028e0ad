package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/policy"
)

// lookEvery is how often Redis is asked while something is waited for.
const lookEvery = 3 * time.Millisecond

// drill is what both stories share: a queue, its workers, and an eye on Redis.
type drill struct {
	*scene.Narrator
	server *scene.Server
	books  books
	queue  string
	charge *bridge.Kind[order]

	id    string
	begun time.Time
	last  sight
	names map[string]string // worker by consumer

	completed, stale, looks, astray int
}

// sight is where a job is, and what its record says.
type sight struct {
	place              string // the key without the queue's prefix; empty: nowhere
	status, deliveries string
	record             map[string]string
}

func (s sight) gone() bool { return s.place == "" && len(s.record) == 0 }

// by tells whether a consumer has it.
func (s sight) by(consumer string) bool { return s.place == "processing:"+consumer }

// begin begins a story about one job.
func (d *drill) begin(id, title string) {
	d.id, d.begun, d.last, d.names = id, time.Now(), sight{place: "-"}, map[string]string{}
	d.Say("\n%s\n  %6s  %-38s %-11s %s\n", title, "", "where "+id+" is", "status", "deliveries")
}

// look asks Redis with plain commands.
func (d *drill) look(ctx context.Context) (sight, error) {
	key := func(name string) string { return "{" + d.queue + "}:" + name }
	consumers, err := d.server.Client.ZRange(ctx, key("consumers"), 0, -1).Result()
	if err != nil {
		return sight{}, err
	}
	lists, sets := []string{"pending", "arriving"}, []string{"scheduled", "dead", "corrupt"}
	for _, c := range consumers {
		lists = append(lists, "processing:"+c)
	}
	in := map[string]redis.Cmder{}
	var record *redis.MapStringStringCmd
	_, err = d.server.Client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range lists {
			in[name] = p.LPos(ctx, key(name), d.id, redis.LPosArgs{})
		}
		for _, name := range sets {
			in[name] = p.ZScore(ctx, key(name), d.id)
		}
		record = p.HGetAll(ctx, key("job:"+d.id))
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // most places do not have it
		return sight{}, err
	}
	s := sight{record: record.Val(), status: record.Val()["status"], deliveries: record.Val()["deliveries"]}
	if s.status == "" && len(s.record) > 0 {
		s.status = "pending" // as the contract has it
	}
	places := 0
	for name, answer := range in {
		if answer.Err() == nil {
			s.place = name
			places++
		}
	}
	if places == 0 && len(s.record) > 0 {
		// Claimed by a consumer that has registered since the first question? Then not again.
		now, err := d.server.Client.ZRange(ctx, key("consumers"), 0, -1).Result()
		if err == nil && len(now) > len(consumers) {
			return d.look(ctx)
		}
	}
	d.looks++
	if places > 1 || (places == 1) != (len(s.record) > 0) {
		d.astray++
	}
	return s, nil
}

// until looks until what it sees is good, and shows each change on the way.
func (d *drill) until(ctx context.Context, good func(sight) bool) (sight, error) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		s, err := d.look(ctx)
		if err != nil {
			return s, err
		}
		d.show(s)
		if good(s) {
			return s, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return s, fmt.Errorf("%s is still in %q: %w", d.id, s.place, context.Cause(ctx))
		}
	}
}

// show prints what is seen, if it is not what was seen last.
func (d *drill) show(s sight) {
	if s.place == d.last.place && s.status == d.last.status {
		return
	}
	d.last = s
	place, status := s.place, s.status
	if consumer, ok := strings.CutPrefix(place, "processing:"); ok {
		if name := d.names[consumer]; name != "" {
			place += " (" + name + ")"
		}
	}
	if s.gone() {
		place, status = "nowhere: its record is deleted", "-"
	}
	if s.deliveries == "" {
		s.deliveries = "-"
	}
	d.Say("  %5.2fs  %-38s %-11s %s\n", time.Since(d.begun).Seconds(), place, status, s.deliveries)
}

// note is what happens between two looks.
func (d *drill) note(format string, args ...any) {
	d.Say("          - "+format+"\n", args...)
}

// worker starts one, and learns its consumer's name from Redis.
func (d *drill) worker(ctx context.Context, name string) (w *scene.Process, consumer string, err error) {
	key := "{" + d.queue + "}:consumers"
	before, err := d.server.Client.ZRange(ctx, key, 0, -1).Result()
	if err != nil {
		return nil, "", err
	}
	known := map[string]bool{}
	for _, c := range before {
		known[c] = true
	}
	w, err = scene.Start(name, d.server.URL, "worker", "-queue", d.queue, "-books", d.books.dir)
	if err != nil {
		return nil, "", err
	}
	d.note("%s is started, process %d", name, w.PID)
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		now, err := d.server.Client.ZRange(ctx, key, 0, -1).Result()
		if err != nil {
			w.Close()
			return nil, "", err
		}
		for _, c := range now {
			if !known[c] {
				d.names[c] = name
				return w, c, nil
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			w.Close()
			return nil, "", fmt.Errorf("%s did not register: %w", name, context.Cause(ctx))
		}
	}
}

// takes submits the job, starts a worker, and waits until it is in the middle of it: the
// effect has happened, and the completion has not been sent.
func (d *drill) takes(ctx context.Context, name string) (w *scene.Process, consumer string, err error) {
	job := bridge.Job[order]{ID: d.id, Value: order{Customer: "ann", Cents: 1250}}
	ticket, err := d.charge.SubmitJob(ctx, job, policy.Wait(5*time.Second))
	if err != nil {
		return nil, "", err
	}
	if err := ticket.WaitEnqueued(ctx); err != nil {
		return nil, "", err
	}
	d.note("it is submitted, and its ticket says that Redis has it")
	if _, err := d.until(ctx, func(s sight) bool { return s.place == "pending" }); err != nil {
		return nil, "", err
	}
	w, consumer, err = d.worker(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if _, err = d.until(ctx, func(s sight) bool { return s.by(consumer) }); err == nil {
		_, err = w.Expect(ctx, saysHolding+d.id)
	}
	if err != nil {
		w.Close()
		return nil, "", err
	}
	d.note("%s has written into the ledger; its completion is not sent yet", name)
	return w, consumer, nil
}

// completes lets the worker that holds the job go on, to the end.
func (d *drill) completes(ctx context.Context, w *scene.Process) error {
	if err := w.Tell("go on"); err != nil {
		return err
	}
	if _, err := w.Expect(ctx, saysCompleted+d.id); err != nil {
		return err
	}
	d.completed++
	d.note("%s has sent its completion, and Redis has confirmed it", w.Name)
	_, err := d.until(ctx, sight.gone)
	return err
}

// leaseLeft is how long a consumer has, by Redis's clock.
func (d *drill) leaseLeft(ctx context.Context, consumer string) time.Duration {
	ends := d.server.Client.ZScore(ctx, "{"+d.queue+"}:consumers", consumer).Val()
	now := d.server.Client.Time(ctx).Val()
	return (time.Duration(int64(ends)-now.UnixMilli()) * time.Millisecond).Round(10 * time.Millisecond)
}

// changed are the fields of the record that differ.
func changed(before, after map[string]string) int {
	n := 0
	for field := range maps.Keys(before) {
		if after[field] != before[field] {
			n++
		}
	}
	for field := range maps.Keys(after) {
		if _, ok := before[field]; !ok {
			n++
		}
	}
	return n
}

// effects tells what is left outside Redis, and claims what at-least-once comes to.
func (d *drill) effects() error {
	lines, err := d.books.lines(d.id)
	if err != nil {
		return err
	}
	receipts, err := d.books.receipts(d.id)
	if err != nil {
		return err
	}
	d.Say("  the ledger says\n")
	for _, line := range lines {
		d.Say("    %s\n", line)
	}
	d.Say("  receipts made by its ID: %d\n", receipts)
	again := len(lines) == 2 && strings.HasSuffix(lines[0], "delivery 1") && strings.HasSuffix(lines[1], "delivery 2")
	d.Claim(again, "%s: charged %d times, at least once; the second handler could tell by deliveries = 2", d.id, len(lines))
	d.Claim(receipts == 1, "%s: %d receipt, made by its ID: repetition was harmless", d.id, receipts)
	return nil
}
