package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// server is the Redis of one run: the user's, or one in this process.
type server struct {
	client   *redis.Client
	queue    string // no two runs share one
	banner   string
	embedded *miniredis.Miniredis
}

// openServer takes the server at url, or starts one if url is empty.
func openServer(url string) (*server, error) {
	s := &server{queue: "quickstart-" + rand.Text()[:8]}
	if url == "" {
		embedded, err := miniredis.Run()
		if err != nil {
			return nil, fmt.Errorf("start the embedded server: %w", err)
		}
		s.embedded = embedded
		s.client = redis.NewClient(&redis.Options{Addr: embedded.Addr()})
		s.banner = "REDIS_URL is not set: using a Redis inside this process. Nothing survives the process."
		return s, nil
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	s.client = redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("REDIS_URL: no answer from %s: %w", opts.Addr, err), s.client.Close())
	}
	s.banner = fmt.Sprintf("Using the Redis at %s, queue %s.", opts.Addr, s.queue)
	return s, nil
}

// close removes what the run has left on a server that goes on, and lets go of it.
func (s *server) close() error {
	var err error
	if s.embedded == nil {
		err = s.clean()
	}
	err = errors.Join(err, s.client.Close())
	if s.embedded != nil {
		s.embedded.Close()
	}
	return err
}

func (s *server) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	keys := s.client.Scan(ctx, 0, "{"+s.queue+"}:*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := s.client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return keys.Err()
}
