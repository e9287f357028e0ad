// Package redisproc runs redis-server and other child processes, and stands between clients and
// a server: the parts of tests and experiments that need no testing.T. Package redistest is
// the layer on it for tests.
//
// Only processes that this package started are ever signalled. They end with whoever
// started them, and with the program whatever ends it.
package redisproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// startWithin bounds the wait for a server to answer, or to end.
const startWithin = 20 * time.Second

// Server is one redis-server process. Its methods may be called from any goroutine.
type Server struct {
	dir  string
	args []string
	port int

	mu   sync.Mutex // guards run
	run  *Process   // nil: not running
	addr string
}

// Start starts a server in dir with extra arguments ("--maxmemory", "8mb") and waits until
// it answers. It keeps nothing on disk unless the arguments say so. Stop ends it.
func Start(dir string, args ...string) (*Server, error) {
	var err error
	// The port is free when it is chosen and may be taken a moment later.
	for range 5 {
		var port int
		if port, err = FreePort(); err != nil {
			return nil, err
		}
		s := &Server{dir: dir, args: args, port: port, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
		if err = s.Restart(); err == nil {
			return s, nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			return nil, err
		}
	}
	return nil, err
}

// FreePort finds a port of this machine that nobody listens on. It may be taken a moment later.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// Port is the port alone.
func (s *Server) Port() int { return s.port }

// Dir is the working directory of the server, where it keeps its files.
func (s *Server) Dir() string { return s.dir }

// Restart starts the server again, on the same port and directory, after a Kill or
// a Stop, and waits until it answers. It does nothing while the server runs.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, s.args...)
	cmd := exec.Command(binary, args...)
	cmd.Dir = s.dir
	p, err := Spawn(cmd)
	if err != nil {
		return err
	}
	if err := p.ready(s.addr); err != nil {
		p.Kill()
		return err
	}
	s.run = p
	return nil
}

// ready waits until the process itself, and not another one on its port, answers.
func (p *Process) ready(addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	pid := "process_id:" + strconv.Itoa(p.cmd.Process.Pid)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		var info string
		probe, err := net.Dial("tcp", addr)
		if err == nil {
			_ = probe.Close()
			info, err = c.Info(ctx).Result() // one section, or all: several at once are asked for since 7.0
		}
		if err == nil && !strings.Contains(info, pid) {
			return fmt.Errorf("another server answers on %s", addr)
		}
		if err == nil && strings.Contains(info, "\nloading:0") {
			return nil
		}
		// With requirepass and the like an answer is all that can be had.
		if err != nil && (redis.IsAuthError(err) || strings.HasPrefix(err.Error(), "NOAUTH")) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("redis-server ended at start: %s", p.out)
		case <-ctx.Done():
			return fmt.Errorf("redis-server did not answer within %s: %w\n%s", startWithin, err, p.out)
		case <-pause.C:
		}
	}
}

// Kill ends the server at once, as a crash does, and waits until it is gone.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.Kill()
		s.run = nil
	}
}

// Freeze stops the server in its tracks (SIGSTOP): its sockets stay open and
// nothing is answered. It returns when the process has stopped.
func (s *Server) Freeze() error { return s.with((*Process).Freeze) }

// Thaw undoes Freeze. What was sent in between is executed now.
func (s *Server) Thaw() error { return s.with((*Process).Thaw) }

func (s *Server) with(do func(*Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return errors.New("redis-server is not running")
	}
	return do(s.run)
}

// Stop ends the process for the last time. What it printed tells of a crash.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil
	}
	crashed := s.run.Ended()
	s.run.Kill()
	out := s.run.Output()
	s.run = nil
	if crashed {
		return fmt.Errorf("redis-server had ended by itself:\n%s", out)
	}
	return nil
}

// Log is what the server has printed in its current run.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return ""
	}
	return s.run.Output()
}
