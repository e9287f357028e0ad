package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/examples/internal/scene"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// What is offered, as a multiple of what the service can do.
const (
	below = 0.4
	above = 10
	again = 0.7 // in the recovery, so that it takes a moment
)

// story is one run: the lives of two instances.
type story struct {
	*scene.Narrator
	store    *durable.Redis
	queue    string
	pictures gallery
	phases   []*phase
	length   time.Duration     // of a phase
	edge     int               // of a tile
	states   map[string]string // of each 202, as the first instance told at its end
	one, two bridge.Stats
}

func (s *story) play(ctx context.Context, redisURL string, out io.Writer) (err error) {
	server, err := scene.Open(redisURL, scene.Embed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir, err := os.MkdirTemp("", "weir-tiles-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s.Narrator, s.queue = scene.NewNarrator(out), server.Queue("httpgate")
	s.pictures, s.states = gallery{dir}, map[string]string{}
	if s.store, err = durable.NewRedis(server.Client, nil); err != nil {
		return err
	}
	s.Say("%s\n\n", server.Banner)
	if err := s.first(ctx); err != nil {
		return err
	}
	if err := s.second(ctx); err != nil {
		return err
	}
	return s.account()
}

// first is the life of the first instance: the load, and the shutdown in the middle of it.
func (s *story) first(ctx context.Context) (err error) {
	instance, err := start(ctx, s.store, s.queue, s.pictures)
	if err != nil {
		return err
	}
	drained := false
	defer func() {
		if !drained {
			err = errors.Join(err, instance.drain())
		}
		err = errors.Join(err, instance.close())
	}()
	c := newClient(instance.base, s.edge)
	defer c.close()

	capable, calibration := c.calibrate(s.length)
	if capable == 0 {
		return errors.Join(errors.New("the service did nothing"), errors.Join(calibration.failures...))
	}
	most := maxBacklog + capacity + workers
	s.Say("With %d workers this service renders %.0f tiles a second. %d jobs may wait in Redis and %d in memory:\n",
		workers, capable, maxBacklog, capacity)
	s.Say("who gets a 202 has at most %d before it, that is about %v.\n\n",
		most, time.Duration(float64(most)/capable*float64(time.Second)).Round(time.Millisecond))
	s.Say("%-15s %8s %8s %6s %6s %6s %9s %9s %12s %9s\n",
		"phase", "jobs/s", "requests", "202", "429", "503", "POST p50", "p99", "202-end p50", "p99")
	s.ended(calibration)
	calm := &phase{name: "below capacity", rate: below * capable, follow: true}
	c.offerFor(ctx, s.length, calm)()
	s.ended(calm)
	// The recovery begins where the overload ends, and not when all is quiet.
	over := &phase{name: "10x overload", rate: above * capable, follow: true, watched: true, enough: (*phase).overloaded}
	recovery := &phase{name: "recovery", rate: again * capable, follow: true, polite: true}
	settleOver := c.offerFor(ctx, s.length, over)
	settleRecovery := c.offerFor(ctx, s.length, recovery)
	settleOver()
	s.ended(over)
	settleRecovery()
	s.ended(recovery)

	last := &phase{name: "shutdown", rate: above * capable}
	offering, stop := context.WithCancel(ctx)
	back := make(chan struct{})
	go func() { c.offer(offering, last)(); close(back) }()
	err = instance.filled(ctx)
	drained = true
	err = errors.Join(err, instance.drain())
	stop()
	<-back
	s.ended(last)
	s.one = instance.counted()
	if err != nil {
		return err
	}
	for id := range s.accepted() {
		status, err := c.status(id, "")
		if err != nil {
			return err
		}
		s.states[id] = status.State
	}
	return nil
}

// second is the life of the next instance, which finishes what the first one has left.
func (s *story) second(ctx context.Context) (err error) {
	instance, err := start(ctx, s.store, s.queue, s.pictures)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, instance.drain(), instance.close())
		s.two = instance.counted()
	}()
	c := newClient(instance.base, s.edge)
	defer c.close()
	finished := 0
	for id, state := range s.states {
		if state != local.Abandoned.String() {
			continue
		}
		status, err := c.await(id)
		if err != nil {
			return err
		}
		if status.State == local.Completed.String() {
			finished++
		}
	}
	back := s.count(local.Abandoned)
	s.Claim(back > 0 && finished == back, "handed back by the first instance: %d; completed by the next: %d", back, finished)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		health, err := c.health()
		if err != nil {
			return err
		}
		if health.Jobs == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d jobs are left: %w", health.Jobs, context.Cause(ctx))
		}
	}
}

// ended prints what came of a phase.
func (s *story) ended(p *phase) {
	s.phases = append(s.phases, p)
	rate := "-"
	if p.rate > 0 {
		rate = fmt.Sprintf("%.0f", float64(p.jobs)/p.lasted.Seconds())
	}
	q := scene.Quantile
	s.Say("%-15s %8s %8d %6d %6d %6d %9s %9s %12s %9s\n", p.name, rate, p.requests(), p.codes[http.StatusAccepted],
		p.codes[http.StatusTooManyRequests], p.codes[http.StatusServiceUnavailable],
		q(p.posts, 50), q(p.posts, 99), q(p.done, 50), q(p.done, 99))
}

// code counts the answers of that status in all phases.
func (s *story) code(status int) (n int64) {
	for _, p := range s.phases {
		n += int64(p.codes[status])
	}
	return n
}

// accepted are the IDs of all 202s.
func (s *story) accepted() map[string]bool {
	ids := map[string]bool{}
	for _, p := range s.phases {
		for _, id := range p.ids {
			ids[id] = true
		}
	}
	return ids
}

// count counts the 202s that the first instance left in a state.
func (s *story) count(state local.State) (n int) {
	for _, told := range s.states {
		if told == state.String() {
			n++
		}
	}
	return n
}

// account compares what the client was told with what the queue counted, and with the pictures.
func (s *story) account() error {
	_, calm, over, recovery, last := s.phases[0], s.phases[1], s.phases[2], s.phases[3], s.phases[4]
	s.Say("\nIn the overload GET /jobs/ID said accepted of %d jobs, enqueued of %d, processing of %d, completed of %d;\n",
		over.states["accepted"], over.states["enqueued"], over.states["processing"], over.states["completed"])
	s.Say("the pressure went up to %.2f, and the longest Retry-After was %d s.\n", over.pressure, over.longest)
	s.Say("In the recovery %d jobs needed %d requests.\n", recovery.jobs, recovery.requests())
	accepted := s.accepted()
	completed, durably, back := s.count(local.Completed), s.count(local.Detached), s.count(local.Abandoned)
	s.Say("At the shutdown, of %d jobs with a 202, %d were completed, %d were in Redis and %d were handed back.\n",
		len(accepted), completed, durably, back)
	var account scene.Account
	account.Add(s.one)
	account.Add(s.two)
	s.Say("%s", account.Table())

	failures, hasty := 0, 0
	for _, p := range s.phases {
		failures += len(p.failures)
		hasty += p.hasty
		for _, err := range p.failures[:min(1, len(p.failures))] {
			s.Say("\n%s: %v\n", p.name, err)
		}
	}
	front := s.one.Front
	ok, full, closed := s.code(http.StatusAccepted), s.code(http.StatusTooManyRequests), s.code(http.StatusServiceUnavailable)
	s.Claim(failures == 0, "requests without an answer: %d", failures)
	s.Claim(ok == front.Accepted && ok == int64(len(accepted)), "202: %d, accepted by the queue: %d", ok, front.Accepted)
	s.Claim(full == front.Rejected[policy.ReasonFull], "429: %d, refused for being full: %d", full, front.Rejected[policy.ReasonFull])
	s.Claim(closed == front.Rejected[policy.ReasonClosed] && closed > 0, "503: %d, refused for being closed: %d", closed, front.Rejected[policy.ReasonClosed])
	s.Claim(ok+full+closed == front.Submitted, "and no other answer: %d together, submitted %d", ok+full+closed, front.Submitted)
	s.Claim(hasty == 0, "refusals without a Retry-After: %d", hasty)
	s.Claim(calm.codes[http.StatusAccepted] == calm.jobs, "below capacity nobody is refused: %d of %d got a 202", calm.codes[http.StatusAccepted], calm.jobs)
	refused := over.codes[http.StatusTooManyRequests]
	s.Claim(2*refused > over.requests(), "at ten times the capacity most are: %d of %d got a 429", refused, over.requests())
	s.Claim(over.ends["completed"] == over.codes[http.StatusAccepted], "but what got a 202 is done: %d of %d", over.ends["completed"], over.codes[http.StatusAccepted])
	s.Claim(over.overloaded(), "the status told the states apart that a job passes: %v", passed)
	s.Claim(recovery.codes[http.StatusAccepted] == recovery.jobs, "in the recovery everybody gets a 202, some after Retry-After: %d of %d", recovery.codes[http.StatusAccepted], recovery.jobs)
	s.Claim(len(last.ids) > 0 && completed+durably+back == len(accepted), "at the shutdown each 202 is completed, in Redis or handed back: %d of %d", completed+durably+back, len(accepted))

	pictures, err := s.pictures.count()
	if err != nil {
		return err
	}
	found := 0
	for id := range accepted {
		if s.pictures.has(id) {
			found++
		}
	}
	s.Claim(found == len(accepted), "202s with a picture in the end: %d of %d", found, len(accepted))
	s.Claim(pictures == found, "pictures without a 202: %d", pictures-found)
	s.Claim(account.Balanced(), "the accounts of both instances add up")
	return s.End()
}
