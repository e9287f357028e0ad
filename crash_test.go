package weir_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/bridge"
	"github.com/seed-9dec4fca/weir/durable"
	"github.com/seed-9dec4fca/weir/internal/redistest"
	"github.com/seed-9dec4fca/weir/policy"
)

// A child process is this test binary again, told by its environment what to be.
const (
	childQueue   = "WEIR_TEST_QUEUE"
	childAddr    = "WEIR_TEST_ADDR"
	childEffects = "WEIR_TEST_EFFECTS" // a file, outside Redis: a line for each effect
	childHold    = "WEIR_TEST_HOLD"    // where the handler waits for a line on standard input
)

const drillLease = time.Second

// worker is the main function of a child: one worker whose handler reports what it does.
func worker() int {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	store, err := durable.NewRedis(redis.NewClient(&redis.Options{Addr: os.Getenv(childAddr)}), nil)
	if err != nil {
		say("failed %v", err)
		return 1
	}
	q, err := bridge.Open(store.List(os.Getenv(childQueue), nil), &bridge.Options{OnEvent: func(e bridge.Event) {
		say("event %s %s deliveries=%d", e.Type, e.ID, e.Deliveries)
	}})
	if err != nil {
		say("failed %v", err)
		return 1
	}
	input := bufio.NewReader(os.Stdin)
	hold := func(where string) {
		if os.Getenv(childHold) == where {
			say("holds %s", where)
			_, _ = input.ReadString('\n')
		}
	}
	drill := bridge.NewKind[string](q, "drill", nil)
	_ = drill.Handle(func(ctx context.Context, d *bridge.Delivery[string]) error {
		context.AfterFunc(ctx, func() { say("context ended: %v", context.Cause(ctx)) })
		hold("before the effect")
		file, err := os.OpenFile(os.Getenv(childEffects), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(file, "%s %d\n", d.ID, d.Deliveries)
		if err := file.Close(); err != nil {
			return err
		}
		hold("after the effect")
		return d.SetResult(fmt.Appendf(nil, "paid %d", d.Deliveries), 0)
	})
	if err := q.Run(context.Background(), &bridge.RunOptions{Workers: 1, Lease: drillLease}); err != nil {
		say("failed %v", err)
		return 1
	}
	return 0
}

// child is a running worker process.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines chan string // what it says; closed at its end
}

// drill is one crash drill: a queue with one job, on the shared server.
type drill struct {
	rdb         *redis.Client
	queue, file string
	ticket      *bridge.Ticket
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	return newDrillOn(t, redistest.Client(t), redistest.Name(t))
}

func newDrillOn(t *testing.T, rdb *redis.Client, queue string) *drill {
	t.Helper()
	d := &drill{rdb: rdb, queue: queue, file: filepath.Join(t.TempDir(), "effects")}
	q := open(t, d.rdb, d.queue, nil, nil)
	ticket, err := bridge.NewKind[string](q, "drill", nil).Submit(patient(t), "pay", policy.Reject())
	if err != nil {
		t.Fatal(err)
	}
	if err := ticket.WaitEnqueued(patient(t)); err != nil {
		t.Fatal(err)
	}
	d.ticket = ticket
	return d
}

// start starts a worker process that holds somewhere in its handler.
func (d *drill) start(t *testing.T, hold string) *child {
	t.Helper()
	return spawn(t, childAddr+"="+d.rdb.Options().Addr, childQueue+"="+d.queue, childEffects+"="+d.file, childHold+"="+hold)
}

// spawn starts this test binary again with an environment that tells it what to be.
func spawn(t *testing.T, env ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	c.Env = append(os.Environ(), env...)
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin, c.Stderr = stdin, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.lines)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		c.kill()
		<-read
		_ = c.Wait()
	})
	return c
}

func (c *child) kill()                   { _ = c.Process.Kill() }
func (c *child) signal(s syscall.Signal) { _ = c.Process.Signal(s) }
func (c *child) goOn()                   { _, _ = fmt.Fprintln(c.stdin) }

// expect waits for a line that begins with prefix.
func (c *child) expect(t *testing.T, prefix string) {
	t.Helper()
	var seen []string
	for timeout := time.After(patience); ; {
		select {
		case line, ok := <-c.lines:
			if !ok {
				t.Fatalf("process ended and did not say %q but:\n%s", prefix, strings.Join(seen, "\n"))
			}
			if strings.HasPrefix(line, prefix) {
				return
			}
			seen = append(seen, line)
		case <-timeout:
			t.Fatalf("worker did not say %q but:\n%s", prefix, strings.Join(seen, "\n"))
		}
	}
}

// inOnePlace checks that the job is in exactly one place, of that name.
func (d *drill) inOnePlace(t *testing.T, want string) {
	t.Helper()
	got := places(t, d.rdb, d.queue, d.ticket.ID())
	if len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("job is in %v, want exactly one place: %s", got, want)
	}
}

// gone checks that nothing of the job is left.
func (d *drill) gone(t *testing.T) {
	t.Helper()
	if got := places(t, d.rdb, d.queue, d.ticket.ID()); len(got) != 0 {
		t.Errorf("completed job is in %v", got)
	}
	if n := d.rdb.Exists(patient(t), d.key()).Val(); n != 0 {
		t.Error("completed job still has its hash")
	}
}

func (d *drill) key() string { return "{" + d.queue + "}:job:" + d.ticket.ID() }

// effects checks which deliveries had their effect.
func (d *drill) effects(t *testing.T, want ...string) {
	t.Helper()
	data, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		got = append(got, strings.TrimPrefix(strings.TrimSpace(line), d.ticket.ID()+" "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deliveries with an effect (-want +got):\n%s", diff)
	}
}

func TestDrillKilledRightAfterTheClaim(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	first := d.start(t, "before the effect")
	first.expect(t, "holds")
	first.kill()
	d.inOnePlace(t, "processing:")

	second := d.start(t, "")
	second.expect(t, "event started "+d.ticket.ID()+" deliveries=2")
	second.expect(t, "event completed "+d.ticket.ID()+" deliveries=2")
	d.gone(t)
	d.effects(t, "2")
}

func TestDrillKilledAfterTheEffectAndBeforeTheCompletion(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	first := d.start(t, "after the effect")
	first.expect(t, "holds")
	first.kill()
	d.inOnePlace(t, "processing:")

	second := d.start(t, "")
	second.expect(t, "event completed "+d.ticket.ID()+" deliveries=2")
	d.gone(t)
	d.effects(t, "1", "2") // at least once: the handler can tell by Deliveries
}

func TestDrillFrozenPastTheLeaseAndThawed(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	first := d.start(t, "after the effect")
	first.expect(t, "holds")
	first.signal(syscall.SIGSTOP)

	second := d.start(t, "after the effect")
	second.expect(t, "event started "+d.ticket.ID()+" deliveries=2")
	second.expect(t, "holds")
	d.inOnePlace(t, "processing:")
	before := d.rdb.HGetAll(patient(t), d.key()).Val()

	first.signal(syscall.SIGCONT)
	first.expect(t, "context ended: "+bridge.ErrLeaseLost.Error())
	first.goOn() // its handler returns nil: a late completion
	first.expect(t, "event stale "+d.ticket.ID())
	if diff := cmp.Diff(before, d.rdb.HGetAll(patient(t), d.key()).Val()); diff != "" {
		t.Errorf("the late completion changed the job (-before +after):\n%s", diff)
	}
	d.inOnePlace(t, "processing:")

	second.goOn()
	second.expect(t, "event completed "+d.ticket.ID()+" deliveries=2")
	d.gone(t)
	d.effects(t, "1", "2")
}
