package main

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// promoteReplica: the link to the replica is cut, the master is killed, the replica takes over. What is
// lost is what the replica had not got, and of what asked for a replica and was not told that there is none,
// nothing is. Nothing is stuck.
func promoteReplica(l *lab) {
	lag := pick(l, 1500*time.Millisecond, 5*time.Second)
	rounds := pick(l, 1, 5)
	master := l.server()
	door := l.proxy(master.Addr()) // what clients know, as with a virtual address
	for i := range 2 {
		l.spawn(role{Name: fmt.Sprint("worker", i), Addr: door.Addr(), Workers: 16, Timeout: time.Second})
	}
	producer := l.spawn(role{Name: "producer", Addr: door.Addr(), Producers: 4, Rate: 300, Task: task{Work: 60}, WorkMax: 160, Timeout: time.Second})
	careful := l.spawn(role{Name: "careful", Addr: door.Addr(), Producers: 4, Rate: 100, Task: task{Work: 60}, WorkMax: 160, Timeout: time.Second, Replicas: 1})
	var cut int64
	for range rounds {
		link := l.tunnel(master.Addr())
		replica := l.server("--replicaof", "127.0.0.1 "+fmt.Sprint(link.port()), "--repl-diskless-sync-delay", "0")
		rdb := l.dial(replica.Addr())
		l.require(l.within(30*time.Second, func() bool { return l.counter(rdb, l.name, "completed") > 0 }), "the replica got nothing")
		l.pause(2 * time.Second)
		l.say("link cut")
		if cut == 0 {
			cut = time.Now().UnixNano()
		}
		link.close()
		l.book.note(entry{E: noteLossy})
		l.pause(lag)
		master.Kill()
		door.Retarget(replica.Addr())
		door.Sever(redisproc.RST)
		l.do(rdb, "REPLICAOF", "NO", "ONE")
		before := l.counter(rdb, l.name, "completed")
		up := time.Now()
		ok := l.within(20*time.Second, func() bool { return l.counter(rdb, l.name, "completed") > before })
		l.require(ok, "nothing was completed within 20 s after the promotion")
		l.figure("progress", time.Since(up))
		l.require(time.Since(up) <= 5*time.Second+grace, "progress %v after the promotion", time.Since(up))
		master = replica
		l.pause(2 * time.Second)
	}
	rdb := l.dial(master.Addr())
	producer.term()
	careful.term()
	producer.wait(time.Minute)
	careful.wait(time.Minute)
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()
	h := l.check(rdb, expectation{lossy: cut, replicas: "careful."})
	l.figure("gaps_reported", h.count["gap"])
}

// tunnel carries bytes, whatever they mean, until it is closed.
type tunnel struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup
	mu       sync.Mutex // guards conns
	conns    []net.Conn
}

func (l *lab) tunnel(addr string) *tunnel {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	l.must(err)
	t := &tunnel{listener: listener, target: addr}
	t.wg.Go(t.accept)
	l.later(t.close)
	return t
}

func (t *tunnel) port() int { return t.listener.Addr().(*net.TCPAddr).Port }

func (t *tunnel) accept() {
	for {
		near, err := t.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", t.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		t.mu.Lock()
		t.conns = append(t.conns, near, far)
		t.mu.Unlock()
		carry := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}
		t.wg.Go(func() { carry(far, near) })
		t.wg.Go(func() { carry(near, far) })
	}
}

// close is idempotent.
func (t *tunnel) close() {
	_ = t.listener.Close()
	t.mu.Lock()
	for _, c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}
