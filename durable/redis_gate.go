package durable

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// gate holds the connection budget by construction: it stands where sockets are made and
// closed, so it counts what exists, whatever the pool thinks. A call that gives up does
// not end the dial that was made for it, and without the gate such dials would add up to
// connections beyond the lanes.
type gate struct {
	ctx    context.Context // of dials; ends with the client
	cancel context.CancelFunc

	mu    sync.Mutex // guards what follows
	limit int        // connections to one address
	open  map[string]int
	freed chan struct{} // closed, and made anew, when a place may be free
}

func newGate(limit int) *gate {
	ctx, cancel := context.WithCancel(context.Background())
	return &gate{ctx: ctx, cancel: cancel, limit: limit, open: make(map[string]int), freed: make(chan struct{})}
}

// widen raises the limit by one: a queue more is consumed, or followed.
func (g *gate) widen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit++
	g.wake()
}

// wake lets those that wait look again. g.mu is held.
func (g *gate) wake() {
	close(g.freed)
	g.freed = make(chan struct{})
}

// close ends the dials that are under way.
func (g *gate) close() { g.cancel() }

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer wraps dial: it waits for a place, as long as ctx allows.
func (g *gate) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(g.ctx, cancel)()
		if err := g.enter(ctx, addr); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			g.leave(addr)
			return nil, err
		}
		counted := &countedConn{Conn: conn, leave: sync.OnceFunc(func() { g.leave(addr) })}
		if sys, ok := conn.(syscall.Conn); ok {
			return &countedSysConn{counted, sys}, nil
		}
		return counted, nil
	}
}

func (g *gate) enter(ctx context.Context, addr string) error {
	for {
		g.mu.Lock()
		if g.open[addr] < g.limit {
			g.open[addr]++
			g.mu.Unlock()
			return nil
		}
		freed := g.freed
		g.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *gate) leave(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[addr]--; g.open[addr] == 0 {
		delete(g.open, addr)
	}
	g.wake()
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// countedSysConn lets the pool look at the socket, so that it sees a connection that the
// server has closed before it sends a command into it.
type countedSysConn struct {
	*countedConn
	sys syscall.Conn
}

func (c *countedSysConn) SyscallConn() (syscall.RawConn, error) { return c.sys.SyscallConn() }
