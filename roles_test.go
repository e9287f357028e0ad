package weir_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// What a child process with a role is told by its environment.
const (
	childRole = "WEIR_TEST_ROLE" // producer, consumer or both
	roleQueue = "WEIR_TEST_ROLE_QUEUE"
	roleJobs  = "WEIR_TEST_ROLE_JOBS" // how many a producer submits
	roleName  = "WEIR_TEST_ROLE_NAME" // begins its IDs
)

// Payloads that say how a job runs.
const (
	deadly = "kill" // its process, while others run beside it
	slow   = "slow"
)

// The settings of every process with a role.
const (
	roleLease   = 1200 * time.Millisecond
	roleCrashes = 2
	roleWorkers = 8
)

// play is the main function of a child with a role. It ends in order when its input does.
func play(role string) int {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	fail := func(err error) int { say("failed %v", err); return 1 }
	store, err := durable.NewRedis(redis.NewClient(&redis.Options{Addr: os.Getenv(childAddr)}), nil)
	if err != nil {
		return fail(err)
	}
	q, err := bridge.Open(store.List(os.Getenv(roleQueue), &durable.ListOptions{MaxCrashes: roleCrashes}), nil)
	if err != nil {
		return fail(err)
	}
	kind := plain(q, "role")
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		stop()
	}()
	var parts sync.WaitGroup
	failed := make(chan error, 2)
	if role != "producer" {
		effects, err := os.OpenFile(os.Getenv(childEffects), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return fail(err)
		}
		_ = kind.Handle(func(_ context.Context, d *bridge.Delivery[string]) error {
			switch d.Value {
			case deadly:
				<-time.After(50 * time.Millisecond) // among its neighbours
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			case slow:
				<-time.After(100 * time.Millisecond)
			}
			_, err := fmt.Fprintf(effects, "%s %d\n", d.ID, d.Deliveries)
			return err
		})
		parts.Go(func() {
			failed <- q.Run(ctx, &bridge.RunOptions{Workers: roleWorkers, Lease: roleLease})
		})
	}
	if role != "consumer" {
		parts.Go(func() { failed <- produce(ctx, q, kind); say("produced") })
	}
	parts.Wait()
	<-ctx.Done()
	if _, err := q.Shutdown(context.Background()); err != nil {
		return fail(err)
	}
	close(failed)
	for err := range failed {
		if err != nil {
			return fail(err)
		}
	}
	say("ended")
	return 0
}

// produce submits jobs and waits until they are enqueued.
func produce(ctx context.Context, q *bridge.Queue, kind *bridge.Kind[string]) error {
	jobs, err := strconv.Atoi(os.Getenv(roleJobs))
	if err != nil {
		return err
	}
	for i := range jobs {
		job := bridge.Job[string]{ID: fmt.Sprintf("%s-%d", os.Getenv(roleName), i)}
		if _, err := kind.SubmitJob(ctx, job, policy.Wait(patience)); err != nil {
			return err
		}
	}
	return q.Flush(ctx)
}

// cast is the processes of one queue.
type cast struct {
	rdb         *redis.Client
	queue, file string
}

func newCast(t *testing.T) *cast {
	t.Helper()
	return &cast{rdb: redistest.Client(t), queue: redistest.Name(t), file: filepath.Join(t.TempDir(), "effects")}
}

func (c *cast) start(t *testing.T, role, name string, jobs int) *child {
	t.Helper()
	return spawn(t, childRole+"="+role, childAddr+"="+c.rdb.Options().Addr, roleQueue+"="+c.queue,
		childEffects+"="+c.file, roleName+"="+name, roleJobs+"="+strconv.Itoa(jobs))
}

// effects reads which deliveries of each job had an effect.
func (c *cast) effects(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		id, deliveries, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[id] = append(got[id], deliveries)
	}
	return got
}

// counter reads one number of the queue's accounting.
func (c *cast) counter(t *testing.T, name string) int {
	t.Helper()
	n, _ := strconv.Atoi(c.rdb.HGet(patient(t), "{"+c.queue+"}:counters", name).Val())
	return n
}

func TestProcessesThatProduceConsumeOrBothRunEveryJobOnce(t *testing.T) {
	t.Parallel()
	const each = 150
	c := newCast(t)
	producers := []*child{
		c.start(t, "producer", "p1", each), c.start(t, "producer", "p2", each),
		c.start(t, "both", "b1", each), c.start(t, "both", "b2", each),
	}
	all := append(slices.Clone(producers), c.start(t, "consumer", "c1", 0), c.start(t, "consumer", "c2", 0))
	for _, p := range producers {
		p.expect(t, "produced")
	}
	eventually(t, "all jobs have completed", func() bool { return c.counter(t, "completed") >= len(producers)*each })
	for _, p := range all {
		_ = p.stdin.Close()
		p.expect(t, "ended")
	}
	effects := c.effects(t)
	for _, name := range []string{"p1", "p2", "b1", "b2"} {
		for i := range each {
			if id := fmt.Sprintf("%s-%d", name, i); len(effects[id]) != 1 || effects[id][0] != "1" {
				t.Errorf("job %s: deliveries with an effect %v", id, effects[id])
			}
		}
	}
	if len(effects) != len(producers)*each {
		t.Errorf("%d jobs had an effect, %d were submitted", len(effects), len(producers)*each)
	}
	if left := leftovers(t, c.rdb, "{"+c.queue+"}:"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A job that killed its process came back for ever, and took its neighbours along.
func TestCase29_KillerComesBackForEver(t *testing.T) {
	t.Parallel()
	const innocents, processes = 200, 2
	c := newCast(t)
	producer := plain(open(t, c.rdb, c.queue, nil, nil), "role")
	for i := range innocents {
		if i == innocents/2 {
			if _, err := producer.SubmitJob(patient(t), bridge.Job[string]{ID: "killer", Value: deadly}, policy.Wait(0)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := producer.SubmitJob(patient(t), bridge.Job[string]{ID: fmt.Sprint("innocent-", i), Value: slow}, policy.Wait(0)); err != nil {
			t.Fatal(err)
		}
	}
	died := make(chan struct{}, 100)
	var running []*child
	start := func() {
		p := c.start(t, "consumer", "", 0)
		running = append(running, p)
		go func() { // it says nothing until it ends
			for range p.lines {
			}
			died <- struct{}{}
		}()
	}
	for range processes {
		start()
	}
	deaths := 0
	eventually(t, "every job has ended", func() bool {
		select {
		case <-died:
			deaths++
			start()
		default:
		}
		return c.counter(t, "completed") == innocents && c.rdb.ZScore(patient(t), "{"+c.queue+"}:dead", "killer").Err() == nil
	})
	for _, p := range running {
		_ = p.stdin.Close()
	}
	if deaths > roleCrashes {
		t.Errorf("%d processes died, the bound is %d", deaths, roleCrashes)
	}
	killer := c.rdb.HGetAll(patient(t), "{"+c.queue+"}:job:killer").Val()
	if killer["status"] != "dead" || killer["reason"] != "worker lost" || killer["crashes"] != strconv.Itoa(roleCrashes) || killer["attempts"] != "" {
		t.Errorf("the killer: %q", killer)
	}
	if n := c.rdb.ZCard(patient(t), "{"+c.queue+"}:dead").Val(); n != 1 {
		t.Errorf("%d dead, only the killer should be", n)
	}
	effects := c.effects(t)
	for i := range innocents {
		id := fmt.Sprint("innocent-", i)
		if len(effects[id]) == 0 {
			t.Errorf("%s never ran", id)
		}
		for k, deliveries := range effects[id] {
			if k > 0 && deliveries == "1" {
				t.Errorf("%s was repeated as its first delivery", id)
			}
		}
	}
}
