package durabletest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/durable/durabletest"
)

const histories = "histories of appends, claims and settles are linearizable"

// The suite is worth what it finds. Each of these engines breaks one promise, and the
// suite must fail on it there and nowhere else.
func TestSuiteFailsOnBrokenEngines(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		name string
		wrap func(*durable.Memory) durable.Engine
		want []string
	}{
		{
			"none", func(m *durable.Memory) durable.Engine { return m }, nil,
		},
		{
			"no token check",
			func(m *durable.Memory) durable.Engine { return &tokenless{Memory: m, current: make(map[string]string)} },
			[]string{
				"a settle after the sweep changes nothing",
				"a stale token leaves no result",
				"a token of the past cancels nothing",
				"a token of the past changes nothing",
				"a token that never was changes nothing",
				"claims whose answer was lost are returned uncharged",
				"codes are in the order of the outcomes",
				histories,
			},
		},
		{
			"append applied twice",
			func(m *durable.Memory) durable.Engine { return &forgetful{m} },
			[]string{
				"a refused key is answered twice alike, takes no room, and is no error",
				"a repeated append gets the first answer",
				"a skipped number is reported as a gap, to whoever asks again too",
				"an append answered before a pause keeps its answer",
				"an append sent twice is stored once",
				histories,
			},
		},
		{
			"no capability is declared",
			func(m *durable.Memory) durable.Engine { return &silent{m} },
			[]string{
				"capabilities are declared, and what is lacking is refused by name",
			},
		},
		{
			"a delay that is lacking, and accepted",
			func(m *durable.Memory) durable.Engine { return &boaster{m} },
			[]string{
				"capabilities are declared, and what is lacking is refused by name",
			},
		},
		{
			"redrive of whatever there is",
			func(m *durable.Memory) durable.Engine { return &reviver{m} },
			[]string{
				"what is not dead is left alone",
			},
		},
		{
			"pause that does not last",
			func(m *durable.Memory) durable.Engine { return &restless{m} },
			[]string{
				"a pause lasts, and tells who and when",
				"a wait that a pause overtakes loses nothing",
				"paused consumption claims nothing, and intake and settling go on",
				"paused consumption expires nothing",
				"paused intake takes nothing and says so, and consumption goes on",
			},
		},
		{
			"purge of claims",
			func(m *durable.Memory) durable.Engine { return &ruthless{m} },
			[]string{
				"a discard and a purge free the key",
				"a purge deletes all but claims, and counts",
				"a purge deletes the states it names and no others",
			},
		},
		{
			"expiry that is forgotten",
			func(m *durable.Memory) durable.Engine {
				return &careless{m, func(i int, j *durable.Job) { j.Expiry = 0 }}
			},
			[]string{
				"a claim sent twice says twice what it has expired",
				"a dead job that is redriven too late expires",
				"a job that expires is told, but not to whose claim has ended it",
				"a job that has expired takes no room",
				"a job that waited too long is not claimed, and the claim says so",
				"a job whose time is over before its delay never runs",
				"a record says until when a job may begin",
				"an expired job frees its key",
				"an expired job with a retention leaves a record, until it is over",
				"an expiry out of bounds is refused by name",
				"following a job that waits and has expired ends it",
				"many jobs that waited too long hold up nobody, and each is named",
				"paused consumption expires nothing",
				"what comes back too late expires",
				"what waits too long for its key expires, and those behind it come",
			},
		},
		{
			"a key that only the first of a batch is asked for",
			func(m *durable.Memory) durable.Engine {
				return &careless{m, func(i int, j *durable.Job) {
					if u := j.Unique; i > 0 && u != nil && u.Key == "k" && u.Window+u.After == 0 && u.States == nil {
						j.Unique = nil
					}
				}}
			},
			[]string{
				"of 1,000 submissions of one key at once one is stored, and all others name it",
				"of one batch the first has the key",
			},
		},
		{
			"a claim that is not told to be cancelled",
			func(m *durable.Memory) durable.Engine { return &lenient{m} },
			[]string{
				"a cancel beside a claim ends the job or marks the claim, never both and never neither",
				"a cancel is told, when the job has ended",
				"a cancelled job frees its key",
				"a cancelled job with a retention leaves a record, until it is over",
				"a claim that is to be cancelled is told to its consumer, and to no other",
				"a claim to be cancelled is cancelled when it would wait again",
				"a job to be cancelled ends with a consumer that leaves",
				"a job to be cancelled ends with its lost consumer",
				"a job to be cancelled whose consumer does not know of it ends when that is found out",
				"a token of the past cancels nothing",
				"what waits for its key can be cancelled, and what is cancelled holds no key",
			},
		},
		{
			"a result that is lost when it has a retention",
			func(m *durable.Memory) durable.Engine { return &resultless{m} },
			[]string{
				"a result has a retention of its own",
				"a result is forgotten with its record",
				"a result is told where it is short, else that it is kept",
				"a settle with a result sent twice is applied once",
				"only what completes has a result",
			},
		},
		{
			"a gap that is not told",
			func(m *durable.Memory) durable.Engine {
				return &deaf{Memory: m, hear: func(n *durable.News) { n.Gap = false }}
			},
			[]string{
				"a follower that does not listen loses the oldest, and is told so once",
			},
		},
		{
			"a job that waits again, and nobody is told",
			func(m *durable.Memory) durable.Engine {
				return &deaf{Memory: m, hear: func(n *durable.News) {
					n.Notices = slices.DeleteFunc(n.Notices, func(n durable.Notice) bool { return n.What == durable.NoticeRequeued })
				}}
			},
			[]string{
				"a job that waits again, and one that dies, are told",
				"what a lost or leaving worker held is told",
				"what an operator does to a job is told",
			},
		},
		{
			"a follower that is told what it has done itself",
			func(m *durable.Memory) durable.Engine { return &deaf{Memory: m, stranger: true} },
			[]string{
				"a job that expires is told, but not to whose claim has ended it",
				"each follower is told of its own",
				"what was done by its own consumer is not told of a job that is followed either",
				"who has done it itself is not told",
			},
		},
		{
			"a queue that claims one more than its limit",
			func(m *durable.Memory) durable.Engine {
				return &generous{m, func(l *durable.Limits, by int) {
					if l.Concurrency > 0 {
						l.Concurrency += by
					}
				}}
			},
			[]string{
				"claims that were there before a limit are counted, and what has ended is not",
				"limits are told, outlive a handle, and are everybody's",
				"no more is claimed at once than the queue may have, by all together",
			},
		},
		{
			"a key that claims one more than its limit",
			func(m *durable.Memory) durable.Engine {
				return &generous{m, func(l *durable.Limits, by int) {
					if l.KeyConcurrency > 0 {
						l.KeyConcurrency += by
					}
				}}
			},
			[]string{
				"a key with both limits keeps its order",
				"a lost or leaving consumer does not hold a key for ever",
				"claims of a key that were there before a limit are counted",
				"no more is claimed at once of a key than it may have, and others are not held up",
				"no two workers have a key together, whatever happens",
				"what waits for its key can be cancelled, and what is cancelled holds no key",
				"what waits for its key comes when the limit is lifted",
				"what waits too long for its key expires, and those behind it come",
				"whatever ends a claim lets the next of its key go",
			},
		},
		{
			"a rate that is not kept",
			func(m *durable.Memory) durable.Engine {
				return &generous{m, func(l *durable.Limits, by int) {
					if l.Rate.Count > 0 && l.Rate.Burst < 1000 {
						l.Rate.Burst += 100 * by
					}
					if l.KeyRate.Count > 0 && l.KeyRate.Burst < 1000 {
						l.KeyRate.Burst += 100 * by
					}
				}}
			},
			[]string{
				"a burst may come at once, and a claim that is asked for twice counts once",
				"a key has a rate of its own",
				"a pause of those who claim gives a key no burst, and nothing starves",
				"no more is claimed over time than the rate allows",
				"what is cancelled while it waits for the rate of its key stops nobody behind it",
				"what waited for the rate of its key comes in its order when that is lifted",
				"what waits for the rate of its key comes when that allows it",
			},
		},
		{
			"unfenced settle",
			func(m *durable.Memory) durable.Engine {
				return &tokenless{Memory: m, current: make(map[string]string), fencedOnly: true}
			},
			[]string{"a settle after the sweep changes nothing"},
		},
	} {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			failed := failing(t, func(_ testing.TB, limits durabletest.Limits) func() durable.Engine {
				e := broken.wrap(openMemory(limits))
				return func() durable.Engine { return e }
			})
			got := slices.Sorted(maps.Keys(failed))
			for name, failures := range failed {
				t.Logf("%s: %s", name, failures[0])
			}
			// A history meets what only shows beside the end of a lease by chance.
			if broken.name == "unfenced settle" {
				got = slices.DeleteFunc(got, func(name string) bool { return name == histories })
			}
			if !slices.Equal(got, broken.want) {
				t.Errorf("failing are %q, want %q", got, broken.want)
			}
		})
	}
}

// tokenless settles whoever holds a job, whatever token it is asked with; if fencedOnly,
// it does so for consumers that have lost their lease and checks the others.
type tokenless struct {
	*durable.Memory
	fencedOnly bool

	mu      sync.Mutex
	current map[string]string // the last token of each job
}

func (e *tokenless) OpenConsumer(ctx context.Context, lease time.Duration) (durable.Consumer, error) {
	c, err := e.Memory.OpenConsumer(ctx, lease)
	if err != nil {
		return nil, err
	}
	own := &tokenlessConsumer{Teller: c.(durable.Teller), e: e}
	own.expiry.Store(time.Now().Add(lease).UnixNano())
	return own, nil
}

type tokenlessConsumer struct {
	durable.Teller
	e      *tokenless
	expiry atomic.Int64 // of the lease, ns
}

func (c *tokenlessConsumer) Renew(ctx context.Context, lease time.Duration) error {
	c.expiry.Store(time.Now().Add(lease).UnixNano())
	return c.Teller.Renew(ctx, lease)
}

// fenced asks without reviving a lease that has ended.
func (c *tokenlessConsumer) fenced(ctx context.Context) bool {
	err := c.Teller.Renew(ctx, max(time.Until(time.Unix(0, c.expiry.Load())), 1))
	return errors.Is(err, durable.ErrFenced)
}

func (c *tokenlessConsumer) Claim(ctx context.Context, r durable.ClaimRequest) (durable.Claimed, error) {
	answer, err := c.Teller.Claim(ctx, r)
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	for _, j := range answer.Jobs {
		c.e.current[j.ID] = j.Token
	}
	return answer, err
}

func (c *tokenlessConsumer) Settle(ctx context.Context, n uint64, outcomes []durable.Outcome) (durable.Settled, error) {
	if c.e.fencedOnly && !c.fenced(ctx) {
		return c.Teller.Settle(ctx, n, outcomes)
	}
	outcomes = slices.Clone(outcomes)
	c.e.mu.Lock()
	for i, o := range outcomes {
		if token, ok := c.e.current[o.ID]; ok {
			outcomes[i].Token = token
		}
	}
	c.e.mu.Unlock()
	return c.Teller.Settle(ctx, n, outcomes)
}

// forgetful applies an append as often as it is asked.
type forgetful struct{ *durable.Memory }

func (e *forgetful) OpenProducer(ctx context.Context) (durable.Producer, error) {
	p, err := e.Memory.OpenProducer(ctx)
	return &forgetfulProducer{Producer: p}, err
}

type forgetfulProducer struct {
	durable.Producer
	mu      sync.Mutex // a copy of a request may come while the next one is made
	asked   uint64     // the greatest number of the caller
	applied uint64     // what the engine has been told
}

func (p *forgetfulProducer) Append(ctx context.Context, n uint64, jobs []*durable.Job) (durable.Appended, error) {
	if ctx.Err() != nil {
		return durable.Appended{}, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < p.asked {
		return durable.Appended{}, durable.ErrOutdated
	}
	p.applied++
	if n > p.asked+1 {
		p.applied += n - p.asked - 1
	}
	p.asked = n
	return p.Producer.Append(ctx, p.applied, jobs)
}

func (p *forgetfulProducer) Close(ctx context.Context, n uint64) (durable.Appended, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < p.asked {
		return durable.Appended{}, durable.ErrOutdated
	}
	if n > p.asked {
		p.applied += n - p.asked
		p.asked = n
	}
	return p.Producer.Close(ctx, p.applied)
}

// silent declares no capabilities.
type silent struct{ *durable.Memory }

func (e *silent) Info() (durable.Info, error) {
	info, err := e.Memory.Info()
	info.Capabilities = durable.Capabilities{}
	return info, err
}

// boaster says it cannot delay, and takes delayed jobs all the same.
type boaster struct{ *durable.Memory }

func (e *boaster) Info() (durable.Info, error) {
	info, err := e.Memory.Info()
	info.Capabilities.Delay = false
	return info, err
}
