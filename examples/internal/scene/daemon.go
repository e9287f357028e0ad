package scene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of a server's start and end.
const (
	startWithin = 10 * time.Second
	endWithin   = 5 * time.Second
)

// ErrNoServer is what Launch returns where no redis-server is installed; it says how to get one.
var ErrNoServer = errors.New("this example needs a real Redis, and there is no redis-server in PATH:\n" +
	"  Debian, Ubuntu  apt-get install redis-server\n" +
	"  Fedora          dnf install redis\n" +
	"  macOS           brew install redis\n" +
	"or set REDIS_URL to one that runs already (redis://localhost:6379)")

// Launch starts a redis-server of its own from PATH, in a temporary folder and on a socket in
// there, so that it meets no other server. It keeps nothing on disk and ends with Close, on Linux
// also when this process is killed.
func Launch() (*Server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNoServer, err)
	}
	dir, err := os.MkdirTemp("", "weir-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	var printed bytes.Buffer // read after the process has ended
	cmd := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
		"--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no")
	cmd.Stdout, cmd.Stderr = &printed, &printed
	run, err := start(cmd)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{
		Client: redis.NewClient(&redis.Options{Network: "unix", Addr: socket}),
		URL:    "unix://" + socket,
		Banner: "REDIS_URL is not set: using a redis-server of its own, which ends with this program.\n" +
			"To look into it meanwhile: redis-cli -s " + socket,
		stop: func() error { return errors.Join(run.end(), os.RemoveAll(dir)) },
	}
	if err := answer(s.Client, run); err != nil {
		err = errors.Join(err, s.Close())
		return nil, fmt.Errorf("start %s: %w\n%s", binary, err, printed.String())
	}
	return s, nil
}

// answer waits until the server does.
func answer(client *redis.Client, run *running) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-run.done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return err
		case <-again.C:
		}
	}
}

// running is a process that this one has started.
type running struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended, after err was set
	err  error
}

// end asks the process to end, and insists if it does not.
func (r *running) end() error {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended: then there is nothing to ask
	select {
	case <-r.done:
		return nil
	case <-time.After(endWithin):
	}
	_ = r.cmd.Process.Kill()
	<-r.done
	return fmt.Errorf("%s did not end when it was asked to", filepath.Base(r.cmd.Path))
}
