package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/local"
	"github.com/seed-9dec4fca/weir/policy"
)

// Bounds of a request.
const (
	maxBody      = 4 << 10
	maxWait      = 10 * time.Second // of GET /jobs/ID?wait=
	healthWithin = 2 * time.Second
)

// gate is the HTTP side of the queue.
type gate struct {
	queue   *bridge.Queue
	tiles   *bridge.Kind[tile]
	tickets *tickets
	closing atomic.Bool // no more jobs come in
}

func (g *gate) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jobs", g.submit)
	mux.HandleFunc("GET /jobs/{id}", g.status)
	mux.HandleFunc("GET /healthz", g.health)
	return mux
}

// jobStatus is what is said of a job.
type jobStatus struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Ended bool   `json:"ended"`
	Error string `json:"error,omitempty"`
}

func statusOf(t *bridge.Ticket) jobStatus {
	state := t.State()
	s := jobStatus{ID: t.ID(), State: state.String(), Ended: state.Ended()}
	if err := t.Err(); err != nil {
		s.Error = err.Error()
	}
	return s
}

// submit answers 202 when the queue has taken the job on, which is not yet in Redis then; its
// status tells when it is. Somebody waits for the answer, so the queue refuses rather than waits.
func (g *gate) submit(w http.ResponseWriter, r *http.Request) {
	var t tile
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&t)
	if err == nil {
		err = t.validate()
	}
	if err != nil {
		answer(w, http.StatusBadRequest, jobStatus{State: "rejected", Error: err.Error()})
		return
	}
	ticket, err := g.tiles.Submit(r.Context(), t, policy.Reject())
	if err != nil {
		refuse(w, err)
		return
	}
	g.tickets.add(ticket)
	w.Header().Set("Location", "/jobs/"+ticket.ID())
	answer(w, http.StatusAccepted, statusOf(ticket))
}

// refuse translates a rejection. The job is still the client's: nothing of it will ever run.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusServiceUnavailable // closed, or Redis cannot be used: another instance may do
	switch {
	case errors.Is(err, policy.ErrFull):
		code = http.StatusTooManyRequests
	case errors.Is(err, policy.ErrTooLarge):
		code = http.StatusRequestEntityTooLarge
	case errors.Is(err, policy.ErrInvalid):
		code = http.StatusBadRequest
	}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		var after time.Duration
		if rejection, ok := errors.AsType[*policy.Rejection](err); ok {
			after = rejection.RetryAfter
		}
		w.Header().Set("Retry-After", strconv.Itoa(seconds(after)))
	}
	answer(w, code, jobStatus{State: "rejected", Error: err.Error()})
}

// seconds rounds up, as the header has no smaller unit; 0 is unknown, and becomes 1 too.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// status tells where a job is: at once; with ?wait=5s when it has ended or that time is over; and
// with ?wait=5s&past=accepted (or enqueued) when it has got beyond that state.
func (g *gate) status(w http.ResponseWriter, r *http.Request) {
	ticket := g.tickets.find(r.PathValue("id"))
	if ticket == nil {
		answer(w, http.StatusNotFound, jobStatus{ID: r.PathValue("id"), State: "unknown", Error: "not submitted here, or forgotten since"})
		return
	}
	if text := r.URL.Query().Get("wait"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil || wait < 0 {
			answer(w, http.StatusBadRequest, jobStatus{ID: ticket.ID(), State: ticket.State().String(), Error: "wait is no duration"})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
		defer cancel()
		reached := ticket.Done
		switch r.URL.Query().Get("past") {
		case local.Accepted.String():
			reached = ticket.Enqueued
		case local.Enqueued.String():
			reached = ticket.Started
		}
		select {
		case <-reached():
		case <-ctx.Done():
		}
	}
	answer(w, http.StatusOK, statusOf(ticket))
}

// healthStatus is what is said of the service.
type healthStatus struct {
	Pressure float64 `json:"pressure"` // 0 to 1, for who balances load
	Jobs     int64   `json:"jobs"`     // in memory and in Redis, not ended
	Error    string  `json:"error,omitempty"`
}

// health is 503 while the service shuts down, and if Redis cannot be used or does not answer. A full queue is a healthy one:
// whoever restarted it for that would make matters worse.
func (g *gate) health(w http.ResponseWriter, r *http.Request) {
	if g.closing.Load() {
		answer(w, http.StatusServiceUnavailable, healthStatus{Pressure: 1, Error: "shutting down"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), healthWithin)
	defer cancel()
	err := g.queue.Check(ctx)
	stats, statsErr := g.queue.Stats(ctx)
	code := http.StatusOK
	d := stats.Durable
	h := healthStatus{Pressure: g.queue.Pressure(), Jobs: int64(stats.Front.Length) + d.Pending + d.Scheduled + d.Processing}
	if err := errors.Join(err, statsErr); err != nil {
		code, h.Error = http.StatusServiceUnavailable, err.Error()
	}
	answer(w, code, h)
}

func answer[T jobStatus | healthStatus](w http.ResponseWriter, code int, body T) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
