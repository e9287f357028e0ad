package redisproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Process is a running child process. Its methods may be called from any goroutine.
type Process struct {
	cmd *exec.Cmd
	out *output
	// done is closed by the goroutine that waits for the process.
	done chan struct{}
}

// Spawn starts cmd as a child that the kernel ends with this program, whatever ends that. What it
// prints is kept (the end of it), unless cmd says where it goes.
func Spawn(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, out: new(output), done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.out
	}
	dieWithParent(cmd)
	started := make(chan error)
	go func() {
		// The kernel's death signal fires when the thread that started the child ends: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended tells whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode is that of an ended process; -1 for one that runs or was ended by a signal.
func (p *Process) ExitCode() int {
	if !p.Ended() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Output is the end of what the process has printed.
func (p *Process) Output() string { return p.out.String() }

// Kill ends the process at once, as a crash does, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal. One that has ended gets none.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Freeze stops the process in its tracks (SIGSTOP) and returns when it has stopped.
func (p *Process) Freeze() error { return p.signal(stopSignal, true) }

// Thaw undoes Freeze.
func (p *Process) Thaw() error { return p.signal(contSignal, false) }

func (p *Process) signal(sig os.Signal, stopped bool) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	for deadline := time.Now().Add(startWithin); isStopped(p.PID()) != stopped; runtime.Gosched() {
		if p.Ended() {
			return errors.New("the process has ended")
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d did not react to %v", p.PID(), sig)
		}
	}
	return nil
}

// output keeps the end of what a process printed.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() > 1<<16 {
		o.buf.Next(o.buf.Len() - 1<<15)
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
