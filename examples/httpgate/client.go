package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// connections is how many the client uses for submitting.
const connections = 64

// longest is how long a phase may take that has not seen enough.
const longest = 10 * time.Second

// client is the load test.
type client struct {
	http *http.Client
	base string
	edge int // of the tiles that it wants
}

func newClient(base string, edge int) *client {
	return &client{base: base, edge: edge, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 4 * connections},
		Timeout:   20 * time.Second,
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// phase is a stretch of load, and what came of it.
type phase struct {
	name    string
	rate    float64           // jobs offered a second
	polite  bool              // whoever is refused comes back after Retry-After
	follow  bool              // wait for the end of each job that was accepted
	watched bool              // look at the pressure now and then
	enough  func(*phase) bool // go on until it says so, but not for ever; nil: no longer than asked

	mu       sync.Mutex // guards what follows
	jobs     int        // offered; offer's until it is settled
	codes    map[int]int
	ids      []string
	hasty    int // refusals without a usable Retry-After
	longest  int // Retry-After, in seconds
	posts    []time.Duration
	done     []time.Duration
	ends     map[string]int // by state
	states   map[string]int // that jobs were seen in
	pressure float64        // the highest that was seen
	lasted   time.Duration
	failures []error
}

// overloaded tells whether most requests have been refused, and jobs were seen in all states.
func (p *phase) overloaded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if 2*p.codes[http.StatusTooManyRequests] <= p.requests() {
		return false
	}
	for _, state := range passed {
		if p.states[state] == 0 {
			return false
		}
	}
	return true
}

// passed are the states that a job passes.
var passed = [...]string{"accepted", "enqueued", "processing", "completed"}

func (p *phase) requests() (n int) {
	for _, m := range p.codes {
		n += m
	}
	return n
}

func (p *phase) fail(err error) {
	p.mu.Lock()
	p.failures = append(p.failures, err)
	p.mu.Unlock()
}

// offer submits at the rate of the phase, whatever becomes of it, until ctx ends. It returns when
// all is submitted once; settle waits for what follows from it.
func (c *client) offer(ctx context.Context, p *phase) (settle func()) {
	p.codes, p.ends, p.states = map[int]int{}, map[string]int{}, map[string]int{}
	begun := time.Now()
	due := make(chan time.Time, 1<<16) // no job waits to be due for another one's sake
	var senders, others sync.WaitGroup
	for range connections {
		senders.Go(func() {
			for at := range due {
				c.submit(p, at, &others)
			}
		})
	}
	watching, stop := context.WithCancel(context.Background())
	if p.watched {
		others.Go(func() { c.watch(watching, p) })
	}
	tick := time.NewTicker(2 * time.Millisecond)
	for ctx.Err() == nil || p.enough != nil && !p.enough(p) && time.Since(begun) < longest {
		<-tick.C
		for float64(p.jobs) < p.rate*time.Since(begun).Seconds() {
			due <- time.Now()
			p.jobs++
		}
	}
	tick.Stop()
	close(due)
	senders.Wait()
	p.lasted = time.Since(begun)
	stop()
	return func() {
		others.Wait()
		slices.Sort(p.posts)
		slices.Sort(p.done)
	}
}

// offerFor is offer for that long.
func (c *client) offerFor(ctx context.Context, length time.Duration, p *phase) (settle func()) {
	offering, stop := context.WithTimeout(ctx, length)
	defer stop()
	return c.offer(offering, p)
}

// submit makes one request that was due then, and what follows from it in the background.
func (c *client) submit(p *phase, due time.Time, others *sync.WaitGroup) {
	code, status, after, err := c.post()
	if err != nil {
		p.fail(err)
		return
	}
	accepted := time.Now()
	refused := code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable
	p.mu.Lock()
	p.codes[code]++
	p.posts = append(p.posts, accepted.Sub(due))
	if code == http.StatusAccepted {
		p.ids = append(p.ids, status.ID)
	}
	if refused && after < 1 {
		p.hasty++
	}
	p.longest = max(p.longest, after)
	p.mu.Unlock()
	switch {
	case code == http.StatusAccepted && p.follow:
		others.Go(func() {
			end, err := c.along(p, status)
			if err != nil {
				p.fail(err)
				return
			}
			p.mu.Lock()
			p.ends[end.State]++
			p.done = append(p.done, time.Since(accepted))
			p.mu.Unlock()
		})
	case refused && p.polite && after > 0:
		others.Go(func() {
			<-time.After(time.Duration(after) * time.Second) // as it was asked to
			c.submit(p, time.Now(), others)
		})
	}
}

// post submits a tile somewhere at the edge of the set, where there is most to do.
func (c *client) post() (code int, status jobStatus, after int, err error) {
	body, err := json.Marshal(tile{X: -0.7436 + rand.Float64()/1000, Y: 0.1318 + rand.Float64()/1000, Size: 0.002, Edge: c.edge})
	if err != nil {
		return 0, status, 0, err
	}
	response, err := c.http.Post(c.base+"/jobs", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, status, 0, err
	}
	if err := read(response, &status); err != nil {
		return 0, status, 0, err
	}
	if response.StatusCode == http.StatusAccepted && response.Header.Get("Location") != "/jobs/"+status.ID {
		return 0, status, 0, fmt.Errorf("the location of %s is %q", status.ID, response.Header.Get("Location"))
	}
	after, _ = strconv.Atoi(response.Header.Get("Retry-After")) // 0: there is none
	return response.StatusCode, status, after, nil
}

// status asks for the state of a job.
func (c *client) status(id, query string) (status jobStatus, err error) {
	response, err := c.http.Get(c.base + "/jobs/" + id + query)
	if err != nil {
		return status, err
	}
	err = read(response, &status)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("job %s: %s %s", id, response.Status, status.Error)
	}
	return status, err
}

// await waits for a job's end.
func (c *client) await(id string) (jobStatus, error) {
	for {
		status, err := c.status(id, "?wait=10s")
		if err != nil || status.Ended {
			return status, err
		}
	}
}

// along goes along with a job from state to state, and notes each.
func (c *client) along(p *phase, status jobStatus) (jobStatus, error) {
	for past := ""; ; {
		p.mu.Lock()
		p.states[status.State]++
		p.mu.Unlock()
		if status.Ended || status.State == past { // back again, for another attempt
			return c.await(status.ID)
		}
		past = status.State
		next, err := c.status(status.ID, "?wait=10s&past="+past)
		if err != nil {
			return status, err
		}
		status = next
	}
}

// health asks how the service is.
func (c *client) health() (health healthStatus, err error) {
	response, err := c.http.Get(c.base + "/healthz")
	if err != nil {
		return health, err
	}
	err = read(response, &health)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("healthz: %s %s", response.Status, health.Error)
	}
	return health, err
}

func read[T jobStatus | healthStatus](response *http.Response, into *T) error {
	err := json.NewDecoder(response.Body).Decode(into)
	_, drained := io.Copy(io.Discard, response.Body) // so that the connection can be used again
	return errors.Join(err, drained, response.Body.Close())
}

// watch looks now and then at the pressure.
func (c *client) watch(ctx context.Context, p *phase) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		health, err := c.health()
		if err != nil {
			p.fail(err)
			return
		}
		p.mu.Lock()
		p.pressure = max(p.pressure, health.Pressure)
		p.mu.Unlock()
	}
}

// calibrate finds out how many jobs a second the service can do: some clients, each with one
// job under way, for that long.
func (c *client) calibrate(length time.Duration) (perSecond float64, p *phase) {
	p = &phase{name: "calibration", codes: map[int]int{}, ends: map[string]int{}}
	begun := time.Now()
	var all sync.WaitGroup
	for range 4 * workers {
		all.Go(func() {
			for time.Since(begun) < length {
				code, status, _, err := c.post()
				accepted := time.Now()
				if err == nil && code == http.StatusAccepted {
					status, err = c.await(status.ID)
				}
				if err != nil {
					p.fail(err)
					return
				}
				p.mu.Lock()
				p.jobs++
				p.codes[code]++
				if code == http.StatusAccepted {
					p.ids = append(p.ids, status.ID)
					p.ends[status.State]++
					p.done = append(p.done, time.Since(accepted))
				}
				p.mu.Unlock()
			}
		})
	}
	all.Wait()
	p.lasted = time.Since(begun)
	slices.Sort(p.done)
	return float64(len(p.done)) / p.lasted.Seconds(), p
}
