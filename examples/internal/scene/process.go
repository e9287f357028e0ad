package scene

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// endWithin is how long a child may take to end in order.
const endWithin = 5 * time.Second

// Process is a child process: this program again, with other arguments. It speaks in
// lines; the end of its input tells it to end. Close it.
type Process struct {
	Name string
	PID  int

	run   *redisproc.Process
	input io.WriteCloser
	lines chan string
	quit  chan struct{} // closed by Close: nobody listens any more
	once  sync.Once
}

// Start starts this program as another process with these arguments, and REDIS_URL as given.
// What it writes to its standard error is kept, for the error of Wait.
func Start(name, redisURL string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+redisURL)
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// A pipe of our own: cmd.Wait would close cmd's before all was read.
	output, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd.Stdout = theirs
	run, err := redisproc.Spawn(cmd)
	_ = theirs.Close() // the child has a copy
	if err != nil {
		_ = output.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{
		Name: name, PID: run.PID(), run: run, input: input,
		lines: make(chan string, 16), quit: make(chan struct{}),
	}
	go p.listen(output)
	return p, nil
}

// listen passes the child's lines on until its output ends.
func (p *Process) listen(output io.ReadCloser) {
	defer close(p.lines)
	defer output.Close() //nolint:errcheck // it was only read
	for scan := bufio.NewScanner(output); scan.Scan(); {
		select {
		case p.lines <- scan.Text():
		case <-p.quit:
		}
	}
}

// Line waits for the next line of the child; io.EOF when there will be none.
func (p *Process) Line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Expect waits for a line that begins with prefix, passes over others, and returns what
// follows the prefix.
func (p *Process) Expect(ctx context.Context, prefix string) (string, error) {
	for {
		line, err := p.Line(ctx)
		if err != nil {
			return "", fmt.Errorf("%s did not say %q: %w", p.Name, prefix, err)
		}
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest), nil
		}
	}
}

// Tell writes a line to the child's input.
func (p *Process) Tell(line string) error {
	_, err := io.WriteString(p.input, line+"\n")
	return err
}

// Kill ends the child at once, as kill -9 does, and waits until it is gone.
func (p *Process) Kill() { p.run.Kill() }

// Freeze stops the child in its tracks, as kill -STOP does: it keeps its memory and its
// connections and does nothing at all. Thaw undoes it.
func (p *Process) Freeze() error { return p.run.Freeze() }

// Thaw lets a frozen child go on as if nothing had happened.
func (p *Process) Thaw() error { return p.run.Thaw() }

// HangUp ends the child's input, which tells it to end in order.
func (p *Process) HangUp() error { return p.input.Close() }

// Wait waits until the child has ended by itself; an error if not with status 0.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.run.Done():
		if code := p.run.ExitCode(); code != 0 {
			return fmt.Errorf("%s ended with status %d: %s", p.Name, code, p.run.Output())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", p.Name, context.Cause(ctx))
	}
}

// Close ends the child if it has not ended, in order if it listens, and is idempotent.
func (p *Process) Close() {
	p.once.Do(func() {
		close(p.quit)
		_ = p.input.Close()
		_ = p.run.Signal(syscall.SIGCONT) // a frozen one could not end
		select {
		case <-p.run.Done():
		case <-time.After(endWithin):
			p.Kill()
		}
		for range p.lines { // until listen has ended
		}
	})
}
