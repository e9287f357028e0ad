package cron

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Options configures a Scheduler. The zero value of a field means its default.
type Options struct {
	// Logger gets what an operator should know. Nil: silent.
	Logger *slog.Logger
	// OnEvent is called with each event, by one goroutine, which ticks of all schedules wait for: it must not block. It
	// may call Add and Remove. Nil: nobody.
	OnEvent func(Event)
}

// Scheduler fires schedules. It is safe for concurrent use.
type Scheduler struct {
	notes Notes
	log   *slog.Logger
	event func(Event)
	wake  chan struct{} // there are changes; capacity 1

	mu        sync.Mutex // guards what follows
	schedules map[string]*schedule
	added     []*schedule // not seen by Run yet
	running   bool
}

// ErrRunning is returned by Run while another Run of the same scheduler is going on.
var ErrRunning = errors.New("cron: the scheduler is running already")

// New makes a scheduler. It does not block and starts nothing. notes are shared by all instances; nil means that there
// are none: then missed ticks cannot be made up for, and time is that of this machine.
func New(notes Notes, opts *Options) *Scheduler {
	s := &Scheduler{notes: notes, schedules: map[string]*schedule{}, wake: make(chan struct{}, 1)}
	if opts != nil {
		s.log, s.event = opts.Logger, opts.OnEvent
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.event == nil {
		s.event = func(Event) {}
	}
	return s
}

func (s *Scheduler) add(e *schedule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.schedules[e.name] != nil {
		return fmt.Errorf("%w: %q", ErrNameTaken, e.name)
	}
	s.schedules[e.name] = e
	if s.running {
		s.added = append(s.added, e)
		s.notify()
	}
	return nil
}

// Remove takes a schedule out of this instance, and reports whether it was there. A tick that is being submitted goes
// on. Others may still have the schedule, and its note stays.
func (s *Scheduler) Remove(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.schedules[name]
	delete(s.schedules, name)
	return there
}

func (s *Scheduler) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// has tells whether e was not removed.
func (s *Scheduler) has(e *schedule) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.schedules[e.name] == e
}

// take hands over what was added.
func (s *Scheduler) take() []*schedule {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := s.added
	s.added = nil
	return added
}

// Run fires the schedules until ctx ends; then it returns nil, within about a second. It needs no running worker: jobs
// are only submitted. It returns ErrRunning if it is running already, and an error that matches
// policy.ErrClosed when a schedule's queue was shut down. A stop and another Run lose no tick if there are Notes.
func (s *Scheduler) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return ErrRunning
	}
	s.running, s.added = true, nil
	for _, e := range s.schedules {
		*e = schedule{name: e.name, table: e.table, opts: e.opts, submit: e.submit, index: -1}
		s.added = append(s.added, e)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	}()

	ctx, cancel := context.WithCancel(ctx)
	r := &run{
		s: s, ctx: ctx, fired: make(chan fired), exchanges: make(chan exchanged),
		dirty: map[string]time.Time{}, unread: map[string]*schedule{},
	}
	err := r.loop()
	cancel()
	return errors.Join(err, r.end())
}
