package redisproc

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
)

// Proxy stands between clients and a server and understands the Redis protocol
// well enough to pair each reply with its request. By default it passes everything.
// Each connection has two goroutines, one for either direction; they end with Close.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex // guards what follows
	target   string
	closed   bool
	refusing bool
	keep     bool
	links    map[*link]struct{}
	count    int
	requests []*rule
	replies  []*rule
}

// Exchange is a request, with its reply once there is one.
type Exchange struct {
	Conn  int      // the connection, counted from 1
	Args  []string // the request, command first
	Reply []byte   // as it came, protocol marks included; nil while the request passes
}

// Action is what happens to a request or a reply.
type Action int

// Actions.
const (
	Pass    Action = iota // go on
	Swallow               // lose it and every reply after it on this connection; requests still get through
	Silence               // lose it and everything after it on this connection, both ways; nothing is closed
	FIN                   // lose it and close the connection in the orderly way
	RST                   // lose it and reset the connection
)

type rule struct{ decide func(Exchange) Action }

// NewProxy starts a proxy to addr. Close ends it.
func NewProxy(addr string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: addr, listener: l, links: make(map[*link]struct{})}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is what clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget makes new connections go to another server.
func (p *Proxy) Retarget(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// OnRequest asks decide about every request before it is sent on, until the
// returned function is called. decide runs on the connection's goroutine and may
// block: that is a delay. The first rule that does not say Pass decides.
func (p *Proxy) OnRequest(decide func(Exchange) Action) (remove func()) {
	return p.add(&p.requests, decide)
}

// OnReply is OnRequest for replies.
func (p *Proxy) OnReply(decide func(Exchange) Action) (remove func()) {
	return p.add(&p.replies, decide)
}

func (p *Proxy) add(rules *[]*rule, decide func(Exchange) Action) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &rule{decide}
	*rules = append(slices.Clip(*rules), r)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		*rules = slices.DeleteFunc(slices.Clone(*rules), func(o *rule) bool { return o == r })
	}
}

// Lose does how to the n-th reply from now on that match accepts, n from 1, and to
// no other. The channel closes when it happens.
func (p *Proxy) Lose(n int, match func(Exchange) bool, how Action) <-chan struct{} {
	done := make(chan struct{})
	var mu sync.Mutex
	p.OnReply(func(e Exchange) Action {
		if !match(e) {
			return Pass
		}
		mu.Lock()
		defer mu.Unlock()
		if n--; n != 0 {
			return Pass
		}
		close(done)
		return how
	})
	return done
}

// With matches requests that have all of these arguments, whatever their case and
// place: With("blmove"), With("evalsha", "append"). A script that the server did not know
// (NOSCRIPT) does not match: it is sent again in full.
func With(args ...string) func(Exchange) bool {
	return func(e Exchange) bool {
		for _, want := range args {
			if !slices.ContainsFunc(e.Args, func(a string) bool { return strings.EqualFold(a, want) }) {
				return false
			}
		}
		return !bytes.HasPrefix(e.Reply, []byte("-NOSCRIPT"))
	}
}

// Sever does how to every connection that is open now.
func (p *Proxy) Sever(how Action) {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.apply(how)
	}
}

// Refuse makes the proxy close new connections at once, or stop doing so.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
}

// KeepServerSide makes FIN and RST end the client's side only: the server goes on
// believing in its client, as it does when a machine dies.
func (p *Proxy) KeepServerSide(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = on
}

// Blackhole makes the proxy swallow everything, on old and on new connections, and
// close nothing: a network that drops packets. The returned function ends it for new
// connections; the silenced ones are reset then.
func (p *Proxy) Blackhole() (end func()) {
	remove := p.OnRequest(func(Exchange) Action { return Silence })
	p.Sever(Silence)
	return func() {
		remove()
		p.mu.Lock()
		var mute []*link
		for l := range p.links {
			if l.state() >= Silence {
				mute = append(mute, l)
			}
		}
		p.mu.Unlock()
		for _, l := range mute {
			l.apply(RST)
		}
	}
}

// Close ends the proxy and every connection through it. It is idempotent.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.closeBoth()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refusing, target := p.refusing, p.target
		p.mu.Unlock()
		if refusing {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.count++
		l := &link{proxy: p, n: p.count, client: client, server: server}
		if p.closed {
			l.closeBoth()
		} else {
			p.links[l] = struct{}{}
			p.wg.Go(l.forward)
			p.wg.Go(l.back)
		}
		p.mu.Unlock()
	}
}

// link is one proxied connection.
type link struct {
	proxy          *Proxy
	n              int
	client, server net.Conn

	mu      sync.Mutex // guards what follows
	mute    Action     // Pass, Swallow or Silence
	cut     bool       // the client's side has been closed by an action
	waiting [][]string // requests that were sent on and not answered, oldest first
}

func (l *link) state() Action {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mute
}

// forward carries requests to the server.
func (l *link) forward() {
	defer l.end()
	r := bufio.NewReaderSize(l.client, 1<<16)
	for {
		frame, err := appendFrame(nil, r)
		if err != nil {
			return
		}
		args := words(frame)
		if how := l.proxy.decide(false, Exchange{Conn: l.n, Args: args}); how != Pass {
			l.apply(how)
		}
		l.mu.Lock()
		lost := l.mute == Silence || l.cut
		if !lost {
			l.waiting = append(l.waiting, args)
		}
		l.mu.Unlock()
		if lost {
			continue
		}
		if _, err := l.server.Write(frame); err != nil {
			return
		}
	}
}

// back carries replies to the client.
func (l *link) back() {
	defer l.end()
	r := bufio.NewReaderSize(l.server, 1<<16)
	for {
		frame, err := appendFrame(nil, r)
		if err != nil {
			return
		}
		if frame[0] != '>' { // nobody asked for a push
			l.mu.Lock()
			var args []string
			if len(l.waiting) > 0 {
				args, l.waiting = l.waiting[0], l.waiting[1:]
			}
			l.mu.Unlock()
			if how := l.proxy.decide(true, Exchange{Conn: l.n, Args: args, Reply: frame}); how != Pass {
				l.apply(how)
			}
		}
		l.mu.Lock()
		lost := l.mute != Pass || l.cut
		l.mu.Unlock()
		if lost {
			continue
		}
		if _, err := l.client.Write(frame); err != nil {
			return
		}
	}
}

func (p *Proxy) decide(reply bool, e Exchange) Action {
	p.mu.Lock()
	rules := p.requests
	if reply {
		rules = p.replies
	}
	p.mu.Unlock()
	for _, r := range rules {
		if how := r.decide(e); how != Pass {
			return how
		}
	}
	return Pass
}

// apply does how to the whole connection.
func (l *link) apply(how Action) {
	l.mu.Lock()
	if how == FIN || how == RST {
		l.cut = true
	} else {
		l.mute = max(l.mute, how)
	}
	l.mu.Unlock()
	if how != FIN && how != RST {
		return
	}
	if c, ok := l.client.(*net.TCPConn); ok && how == RST {
		_ = c.SetLinger(0)
	}
	_ = l.client.Close()
	if !l.kept() {
		_ = l.server.Close()
	}
}

// kept reports whether the server's side outlives the client's.
func (l *link) kept() bool {
	l.proxy.mu.Lock()
	keep := l.proxy.keep && !l.proxy.closed
	l.proxy.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return keep && l.cut
}

// end is the end of either direction, and of both unless the server's side is kept.
func (l *link) end() {
	if l.kept() {
		return
	}
	l.closeBoth()
	l.proxy.mu.Lock()
	delete(l.proxy.links, l)
	l.proxy.mu.Unlock()
}

func (l *link) closeBoth() {
	_ = l.client.Close()
	_ = l.server.Close()
}
