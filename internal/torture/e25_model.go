package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// compareWithModel: the engine on a real server, and Memory, answer as the model does, whatever is asked in
// whatever order: append, claim, renew, settle, sweep, time, lost answers, requests sent twice.
func compareWithModel(l *lab) {
	const side = 10 // by side: most of the time is real time that passes in the model
	runs, steps := pick(l, 20, 200), pick(l, 1000, 10_000)
	server := l.server()
	binary := filepath.Join(l.dir, "durable.test")
	build := exec.Command("go", "test", "-c", "-o", binary, "./durable")
	build.Dir = l.root()
	text, failed := l.output(build)
	if failed {
		l.must(fmt.Errorf("the model does not build: %s", tail(text)))
	}
	l.say("%d runs of %d steps", runs, steps)
	// A run of the list's machine has 2 rounds, one of Memory's 6.
	machines := []machine{{"^TestMemoryAnswersAsTheModel$", runs, steps / 6, l.set.seed}}
	test := "^TestListAnswersAsTheModel$/^list$"
	if l.engine().name == "sortedset" {
		test = "^TestListAnswersAsTheModel$/^sorted_set$"
	}
	for i := range side {
		machines = append(machines, machine{test, runs / side, steps / 2, l.set.seed + uint64(i)})
	}
	var comparing sync.WaitGroup
	var passed atomic.Int64
	for _, m := range machines {
		comparing.Go(func() {
			cmd := exec.Command(binary, "-test.run="+m.test, "-test.v", "-test.timeout=2h", fmt.Sprint("-rapid.checks=", m.runs),
				fmt.Sprint("-rapid.seed=", m.seed), fmt.Sprint("-rapid.steps=", m.steps), "-rapid.nofailfile")
			cmd.Dir = l.dir
			cmd.Env = append(os.Environ(), "REDIS_ADDR="+server.Addr())
			text, failed := l.output(cmd)
			done := regexp.MustCompile(`OK, passed (\d+) tests`).FindStringSubmatch(text)
			if failed || done == nil {
				l.breach("%s: %s", m.test, tail(text))
				return
			}
			n, _ := strconv.Atoi(done[1])
			passed.Add(int64(n))
		})
	}
	comparing.Wait()
	l.figure("runs", passed.Load())
	l.figure("steps", steps)
	l.require(passed.Load() == int64(2*runs), "%d of %d runs agree with the model", passed.Load(), 2*runs)
}

// machine is a test that drives an engine and its model.
type machine struct {
	test        string
	runs, steps int
	seed        uint64
}

// output runs a command as a child that ends with us.
func (l *lab) output(cmd *exec.Cmd) (text string, failed bool) {
	p, err := redisproc.Spawn(cmd)
	l.must(err)
	select {
	case <-p.Done():
	case <-l.ctx.Done():
		p.Kill()
	}
	return p.Output(), p.ExitCode() != 0
}
