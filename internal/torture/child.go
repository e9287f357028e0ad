package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// child is an actor as the conductor sees it.
type child struct {
	*redisproc.Process
	l      *lab
	role   role
	stdin  io.WriteCloser
	binary string
	mayDie bool // it may end by itself: a task kills it
	dead   bool // the conductor has killed it, or noticed its end
}

// startWithin is how long an actor may take to come up.
const startWithin = 30 * time.Second

// spawn starts an actor and waits until it is up. The queue has the name of the experiment.
func (l *lab) spawn(r role) *child { return l.spawnFrom("", r) }

// spawnFrom is spawn with another binary; "" is this one.
func (l *lab) spawnFrom(binary string, r role) *child {
	r.Dir, r.Seed, r.Engine = l.dir, l.set.seed, l.engine().name
	orElse(&r.Queue, l.name)
	text, err := json.Marshal(r)
	l.must(err)
	if binary == "" {
		binary, err = os.Executable()
		l.must(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	stdin, err := cmd.StdinPipe()
	l.must(err)
	reader, writer, err := os.Pipe()
	l.must(err)
	cmd.Stdout = writer
	c := &child{l: l, role: r, stdin: stdin, binary: binary}
	c.Process, err = redisproc.Spawn(cmd)
	writer.Close()
	l.must(err)
	l.mu.Lock()
	l.children = append(l.children, c)
	l.mu.Unlock()
	l.later(func() {
		_ = c.Thaw()
		c.Kill()
	})
	up := make(chan bool, 1)
	go func() { // ends with the child
		defer reader.Close()
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			if lines.Text() == "up" {
				up <- true
			}
		}
		close(up)
	}()
	select {
	case ok := <-up:
		if !ok {
			<-c.Done()
			l.must(fmt.Errorf("%s did not come up: %s", r.Name, c.Output()))
		}
	case <-time.After(startWithin):
		l.must(fmt.Errorf("%s did not come up within %v", r.Name, startWithin))
	}
	return c
}

// kill is SIGKILL, noted when the process is gone.
func (c *child) kill() {
	c.dead = true
	c.Kill()
	c.l.book.note(entry{E: noteKill, S: c.role.Name})
}

// buried notes the end of a child that may die by itself.
func (c *child) buried() {
	c.dead = true
	c.l.book.note(entry{E: noteKill, S: c.role.Name})
}

func (c *child) freeze() {
	c.l.must(c.Freeze())
	c.l.book.note(entry{E: noteFreeze, S: c.role.Name})
}

func (c *child) thaw() {
	c.l.book.note(entry{E: noteThaw, S: c.role.Name})
	c.l.must(c.Thaw())
}

// tell writes a line to the actor.
func (c *child) tell(line string) { _, _ = fmt.Fprintln(c.stdin, line) }

// term asks it to end in order.
func (c *child) term() { _ = c.Signal(syscall.SIGTERM) }

// log is what the actor's logger wrote.
func (c *child) log() string {
	text, _ := os.ReadFile(filepath.Join(c.l.dir, c.role.Name+".log"))
	return string(text)
}

// wait waits for the end of a child that ends by itself, in order.
func (c *child) wait(limit time.Duration) {
	select {
	case <-c.Done():
	case <-time.After(max(limit, time.Second)):
		c.l.breach("%s did not end within %v", c.role.Name, limit)
		return
	case <-c.l.ctx.Done():
		panic(abort{c.l.ctx.Err()})
	}
	if code := c.ExitCode(); code != 0 && !c.dead && !c.mayDie {
		c.l.breach("%s ended with %d: %s", c.role.Name, code, tail(c.Output()))
		c.dead = true
	}
}

// dismiss ends all living actors in order.
func (l *lab) dismiss() {
	l.mu.Lock()
	all := l.children
	l.mu.Unlock()
	for _, c := range all {
		if !c.dead {
			c.term()
		}
	}
	for _, c := range all {
		if !c.dead {
			c.wait(c.role.Patience + 20*time.Second)
		}
	}
}

// tail is the end of a text.
func tail(text string) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-1500):]
}
