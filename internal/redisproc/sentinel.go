package redisproc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelGroup is what the sentinels of this package call the servers they watch.
const SentinelGroup = "group"

// Sentinel is one redis-sentinel process.
type Sentinel struct {
	*Process
	addr string
}

// StartSentinel starts a sentinel in dir that watches the primary on a port and takes part in a failover when quorum
// sentinels have not heard of it for down. It waits until the sentinel answers. Kill ends it.
func StartSentinel(dir string, primary, quorum int, down time.Duration) (*Sentinel, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "sentinel.conf") // it is written to
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\n", port, dir) +
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d\n", SentinelGroup, primary, quorum) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", SentinelGroup, down.Milliseconds()) +
		fmt.Sprintf("sentinel failover-timeout %s %d\n", SentinelGroup, 10*down.Milliseconds())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := Spawn(exec.Command(binary, config, "--sentinel"))
	if err != nil {
		return nil, err
	}
	s := &Sentinel{Process: p, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if err := s.ready(); err != nil {
		p.Kill()
		return nil, err
	}
	return s, nil
}

// Addr is host:port.
func (s *Sentinel) Addr() string { return s.addr }

// ready waits until the sentinel knows its primary.
func (s *Sentinel) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		_, err := s.Primary(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("redis-sentinel ended at start: %s", s.Output())
		case <-ctx.Done():
			return fmt.Errorf("redis-sentinel did not answer within %s: %w\n%s", startWithin, err, s.Output())
		case <-pause.C:
		}
	}
}

// Primary is host:port of the server that this sentinel takes for the primary.
func (s *Sentinel) Primary(ctx context.Context) (addr string, err error) {
	// Before it listens a dial fails, which the client would print.
	probe, err := net.Dial("tcp", s.addr)
	if err != nil {
		return "", err
	}
	_ = probe.Close()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = c.Close() }()
	words, err := c.GetMasterAddrByName(ctx, SentinelGroup).Result()
	if err != nil {
		return "", err
	}
	if len(words) != 2 {
		return "", fmt.Errorf("a sentinel said %q", words)
	}
	return net.JoinHostPort(words[0], words[1]), nil
}
