package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// Proxy stands between clients and a server; see redisproc.Proxy.
type Proxy struct{ *redisproc.Proxy }

// Exchange is a request, with its reply once there is one.
type Exchange = redisproc.Exchange

// Action is what happens to a request or a reply.
type Action = redisproc.Action

// Actions; see redisproc.
const (
	Pass    = redisproc.Pass
	Swallow = redisproc.Swallow
	Silence = redisproc.Silence
	FIN     = redisproc.FIN
	RST     = redisproc.RST
)

// NewProxy starts a proxy to addr that ends with the test.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	p, err := redisproc.NewProxy(addr)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(p.Close)
	return &Proxy{p}
}

// Client returns a client through the proxy that closes with the test.
func (p *Proxy) Client(t testing.TB) *redis.Client {
	t.Helper()
	return client(t, p.Addr())
}

// With matches requests that have all of these arguments; see redisproc.With.
func With(args ...string) func(Exchange) bool { return redisproc.With(args...) }
