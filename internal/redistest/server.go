// Package redistest gives tests a real redis-server.
//
// A test binary shares one server (Addr, Client, Name), started at the first
// use, or attaches to the one that REDIS_ADDR names. A test that needs other settings,
// or wants to kill, freeze or restart a server, starts a private one (Start). A
// Proxy stands between a client and a server and loses, delays or cuts at an
// exact point.
//
// Only processes that this package started are ever signalled. They end with the
// test, and with the test binary whatever ends it. Nothing is ever flushed:
// each test has names of its own and deletes what is under them.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// InstallHint is what a failed test tells whoever runs it.
const InstallHint = "tests need a redis-server >= 6.2 in PATH: apt-get install redis-server (or `make redis`), or set REDIS_ADDR; skip them with -short"

// startWithin bounds the wait for a server to answer, or to end.
const startWithin = 20 * time.Second

// Server is one redis-server process, owned by a test or by the test binary.
// Its methods may be called from any goroutine.
type Server struct {
	dir  string
	args []string
	port int

	mu   sync.Mutex // guards run
	run  *process   // nil: not running
	addr string
}

// process is one run of redis-server.
type process struct {
	cmd *exec.Cmd
	out *output
	// done is closed by the goroutine that waits for the process.
	done chan struct{}
}

// Start starts a private server with extra arguments ("--maxmemory", "8mb") and
// stops it when the test ends. It keeps nothing on disk unless the arguments say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := start(t.TempDir(), args)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("redistest: %v", err)
		}
	})
	return s
}

// missing ends a test that got no server: a failure with a hint, and a skip only under -short.
func missing(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) {
		if testing.Short() {
			t.Skip("no redis-server, and -short is set")
		}
		t.Fatalf("redistest: %v\n%s", err, InstallHint)
	}
	t.Fatalf("redistest: %v", err)
}

func start(dir string, args []string) (*Server, error) {
	var err error
	// The port is free when it is chosen and may be taken a moment later.
	for range 5 {
		var port int
		if port, err = freePort(); err != nil {
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

func freePort() (int, error) {
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

// Client returns a client with the library's defaults that closes with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return client(t, s.addr)
}

func client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

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
	p := &process{cmd: exec.Command(binary, args...), out: new(output), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, p.out, p.out
	dieWithParent(p.cmd)

	started := make(chan error)
	go func() {
		// The kernel's death signal fires when the thread that started the child ends: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := p.ready(s.addr); err != nil {
		p.end()
		return err
	}
	s.run = p
	return nil
}

// ready waits until the process itself, and not another one on its port, answers.
func (p *process) ready(addr string) error {
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
			info, err = c.Info(ctx, "server", "persistence").Result()
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
			return fmt.Errorf("redis-server did not answer within %s: %v\n%s", startWithin, err, p.out)
		case <-pause.C:
		}
	}
}

// Kill ends the server at once, as a crash does, and waits until it is gone.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.end()
		s.run = nil
	}
}

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Freeze stops the server in its tracks (SIGSTOP): its sockets stay open and
// nothing is answered. It returns when the process has stopped.
func (s *Server) Freeze() error { return s.signal(stopSignal, true) }

// Thaw undoes Freeze. What was sent in between is executed now.
func (s *Server) Thaw() error { return s.signal(contSignal, false) }

func (s *Server) signal(sig os.Signal, stopped bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return errors.New("redis-server is not running")
	}
	if err := s.run.cmd.Process.Signal(sig); err != nil {
		return err
	}
	deadline := time.Now().Add(startWithin)
	for isStopped(s.run.cmd.Process.Pid) != stopped {
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server did not react to %v", sig)
		}
		runtime.Gosched()
	}
	return nil
}

// stop ends the process for the last time. What it printed tells of a crash.
func (s *Server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil
	}
	crashed := false
	select {
	case <-s.run.done:
		crashed = true
	default:
	}
	s.run.end()
	out := s.run.out.String()
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
	return s.run.out.String()
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

// tempDir makes a directory for the shared server, which no test owns.
func tempDir() (string, error) {
	return os.MkdirTemp("", "redistest-"+filepath.Base(os.Args[0])+"-")
}
