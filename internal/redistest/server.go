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
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// InstallHint is what a failed test tells whoever runs it.
const InstallHint = "tests need a redis-server >= 6.2 in PATH: apt-get install redis-server (or `make redis`), or set REDIS_ADDR; skip them with -short"

// Server is one redis-server process, owned by a test or by the test binary.
// Its methods may be called from any goroutine.
type Server struct{ *redisproc.Server }

// Start starts a private server with extra arguments ("--maxmemory", "8mb") and
// stops it when the test ends. It keeps nothing on disk unless the arguments say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := redisproc.Start(t.TempDir(), args...)
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("redistest: %v", err)
		}
	})
	return &Server{s}
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

// Client returns a client with the library's defaults that closes with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return client(t, s.Addr())
}

func client(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// tempDir makes a directory for the shared server, which no test owns.
func tempDir() (string, error) {
	return os.MkdirTemp("", "redistest-"+filepath.Base(os.Args[0])+"-")
}
