package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/policy"
)

// The bounds, small so that they are reached: of what waits in memory, of what waits in Redis, and
// of what is done at once.
const (
	capacity   = 32
	maxBacklog = 64
	workers    = 2
)

// drainWithin is how long a shutdown may take, as a platform gives it to a process. The same
// for the requests that are under way at the end.
const drainWithin = 2 * time.Second

// service is one instance: a queue, its workers, and an HTTP server in front.
type service struct {
	*gate
	kept    string // the file with what was handed back
	base    string // its address
	server  *http.Server
	serving chan error
	running chan error
}

// start starts an instance, which first takes up what the one before has handed back.
func start(ctx context.Context, store *durable.Redis, queue string, pictures gallery) (*service, error) {
	q, err := bridge.Open(store.List(queue, &durable.ListOptions{MaxBacklog: maxBacklog}), &bridge.Options{Capacity: capacity})
	if err != nil {
		return nil, err
	}
	s := &service{
		gate:    &gate{queue: q, tiles: bridge.NewKind[tile](q, "tile", nil), tickets: newTickets(remembered)},
		kept:    filepath.Join(pictures.dir, "handed-back.json"),
		serving: make(chan error, 1), running: make(chan error, 1),
	}
	err = s.tiles.Handle(func(ctx context.Context, d *bridge.Delivery[tile]) error {
		picture, err := d.Value.render(ctx)
		if err != nil {
			return err
		}
		return pictures.put(d.ID, picture)
	})
	if err != nil {
		return nil, err
	}
	if err := q.Check(ctx); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.base = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() { s.serving <- s.server.Serve(listener) }()                                          // ended by close
	go func() { s.running <- q.Run(context.Background(), &bridge.RunOptions{Workers: workers}) }() // ended by drain
	if err := s.takeUp(ctx); err != nil {
		return nil, errors.Join(err, s.drain(), s.close())
	}
	return s, nil
}

// drain ends the queue, while the server still tells everybody so: no more jobs come in, what is
// in memory goes to Redis as long as there is room and time, and the rest is kept in a file.
func (s *service) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	s.closing.Store(true)
	report, err := s.queue.Shutdown(ctx)
	// What is uncertain may run or not: submitted again under its ID, it will not be there twice.
	return errors.Join(err, s.keep(append(report.Returned, report.Uncertain...)), <-s.running)
}

// filled waits until nothing more fits, in Redis and in memory.
func (s *service) filled(ctx context.Context) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		stats, err := s.queue.Stats(ctx)
		if err != nil {
			return err
		}
		if stats.Front.Length == capacity && stats.Durable.Pending >= maxBacklog-workers {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// counted is what the queue has counted by itself, without asking Redis.
func (s *service) counted() bridge.Stats {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stats, _ := s.queue.Stats(ctx) // an error, and the rest is valid all the same
	return stats
}

// close ends the server, after the requests that are under way.
func (s *service) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if serving := <-s.serving; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

// keep writes down what was handed back.
func (s *service) keep(back []bridge.Returned) error {
	if len(back) == 0 {
		return nil
	}
	jobs := map[string]json.RawMessage{}
	for _, r := range back {
		jobs[r.ID] = r.Payload
	}
	text, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	return os.WriteFile(s.kept, text, 0o600)
}

// takeUp submits what was written down, under the same IDs, so that doing it twice does no harm.
func (s *service) takeUp(ctx context.Context) error {
	text, err := os.ReadFile(s.kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var jobs map[string]tile
	if err := json.Unmarshal(text, &jobs); err != nil {
		return err
	}
	for id, t := range jobs {
		ticket, err := s.tiles.SubmitJob(ctx, bridge.Job[tile]{ID: id, Value: t}, policy.Wait(10*time.Second))
		if err != nil {
			return err
		}
		s.tickets.add(ticket)
		if err := ticket.WaitEnqueued(ctx); err != nil && !errors.Is(err, bridge.ErrDuplicate) {
			return err
		}
	}
	return os.Remove(s.kept) // all of it is in Redis
}
