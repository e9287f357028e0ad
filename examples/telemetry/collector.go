package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"math/bits"
	"sync"

	"github.com/seed-9dec4fca/weir/bridge"
)

// collector is what stands behind a queue: it keeps a histogram and a compressed log of the
// samples that reach it. A sample that comes twice is taken once.
type collector struct {
	mu      sync.Mutex // guards what follows
	seen    map[int]bool
	nanos   int64
	buckets [64]int // by the power of two
	log     *gzip.Writer
	written counter
}

// counter counts bytes.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func newCollector() *collector {
	c := &collector{seen: map[int]bool{}}
	c.log = gzip.NewWriter(&c.written)
	return c
}

func (c *collector) add(d *bridge.Delivery[measure]) error {
	line, err := json.Marshal(d.Value)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[d.Value.N] {
		return nil
	}
	_, err = c.log.Write(append(line, '\n'))
	if err = errors.Join(err, c.log.Flush()); err != nil { // whoever reads along wants it now
		return err
	}
	c.seen[d.Value.N] = true
	c.nanos += d.Value.Nanos
	c.buckets[bits.Len64(uint64(max(d.Value.Nanos, 0)))]++
	return nil
}

// quantile is an upper bound, in nanoseconds.
func (c *collector) quantile(percent int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := len(c.seen) * percent / 100
	for power, n := range c.buckets {
		if rest < n {
			return 1<<power - 1
		}
		rest -= n
	}
	return 0
}

func (c *collector) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Close()
}
