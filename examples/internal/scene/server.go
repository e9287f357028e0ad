// Package scene is what the examples are played on: a Redis server, child processes that
// are the same program again, and the tables that tell how it went. Only processes that it
// started itself are ever signalled, and only keys of its own queues are ever deleted.
package scene

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/alicebob/miniredis/v2" //nolint:depguard // the server of those who have none is the examples' own
	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// ErrNoServer is what Launch returns where no redis-server is installed; it says how to get one.
var ErrNoServer = errors.New("this example needs a real Redis, and there is no redis-server in PATH:\n" +
	"  Debian, Ubuntu  apt-get install redis-server\n" +
	"  Fedora          dnf install redis\n" +
	"  macOS           brew install redis\n" +
	"or set REDIS_URL to one that runs already (redis://localhost:6379)")

// Server is a Redis for one run of an example. Close it.
type Server struct {
	Client *redis.Client
	// URL is what a child process needs as its REDIS_URL; empty if no other process can get there.
	URL string
	// Banner says which server it is, for a person.
	Banner string

	stop   func() error // ends a server that is the example's own; nil: somebody else's
	queues []string     // names that were given out
}

// Open takes the server at url, or one that otherwise makes if url is empty. It blocks
// until the server answers, a few seconds at most.
func Open(url string, otherwise func() (*Server, error)) (*Server, error) {
	if url == "" {
		return otherwise()
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	s := &Server{Client: redis.NewClient(opts), URL: url, Banner: fmt.Sprintf("Using the Redis at %s.", opts.Addr)}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("REDIS_URL: no answer from %s: %w", opts.Addr, err), s.Client.Close())
	}
	return s, nil
}

// Embed makes a small Redis inside this process: the same client, the same scripts, the
// same blocking commands, and nothing survives.
func Embed() (*Server, error) {
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("start the embedded server: %w", err)
	}
	return &Server{
		Client: redis.NewClient(&redis.Options{Addr: embedded.Addr()}),
		Banner: "REDIS_URL is not set: using a Redis inside this process. Nothing survives the process.",
		stop:   func() error { embedded.Close(); return nil },
	}, nil
}

// Launch starts a redis-server of its own from PATH, in a temporary folder, and waits until it
// answers. It keeps nothing on disk and ends with Close, on Linux also when this process is killed.
func Launch() (*Server, error) {
	dir, err := os.MkdirTemp("", "weir-")
	if err != nil {
		return nil, err
	}
	own, err := redisproc.Start(dir)
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w (%w)", ErrNoServer, err)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Server{
		Client: redis.NewClient(&redis.Options{Addr: own.Addr()}),
		URL:    "redis://" + own.Addr(),
		Banner: fmt.Sprintf("REDIS_URL is not set: using a redis-server of its own, which ends with this program.\n"+
			"To look into it meanwhile: redis-cli -p %d", own.Port()),
		stop: func() error { return errors.Join(own.Stop(), os.RemoveAll(dir)) },
	}, nil
}

// Queue returns a name that begins with name and that no other run uses. What is stored
// under it is deleted by Close.
func (s *Server) Queue(name string) string {
	name += "-" + rand.Text()[:8]
	s.queues = append(s.queues, name)
	return name
}

// Close removes what the run has left on a server that goes on, ends one that does not, and
// lets go of it.
func (s *Server) Close() error {
	var err error
	if s.stop == nil {
		err = s.clean()
	}
	err = errors.Join(err, s.Client.Close())
	if s.stop != nil {
		err = errors.Join(err, s.stop())
	}
	return err
}

func (s *Server) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, queue := range s.queues {
		keys := s.Client.Scan(ctx, 0, "{"+queue+"}:*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := s.Client.Unlink(ctx, keys.Val()).Err(); err != nil {
				return fmt.Errorf("clean up: %w", err)
			}
		}
		if err := keys.Err(); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}
