package postgres_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy stands between clients and a server on loopback.
type proxy struct {
	listener net.Listener
	server   url.URL

	mu    sync.Mutex
	cut   bool // nothing passes, and nobody is let in
	deaf  bool // what the server says is lost
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

func newProxy(t *testing.T, serverURL string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := url.Parse(serverURL)
	require.NoError(t, err)
	p := &proxy{listener: listener, server: *server, conns: make(map[net.Conn]bool)}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(true, false)
		p.wait.Wait()
	})
	return p
}

// url is that of the server, through the proxy.
func (p *proxy) url() string {
	u := p.server
	u.Host = p.listener.Addr().String()
	return u.String()
}

// set says what passes. Connections end when the proxy is cut, and when it is not deaf any
// more: what was lost is not sent again.
func (p *proxy) set(cut, deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cut || p.deaf && !deaf {
		for c := range p.conns {
			_ = c.Close()
		}
	}
	p.cut, p.deaf = cut, deaf
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server.Host)
		p.mu.Lock()
		if err != nil || p.cut {
			_ = client.Close()
			if server != nil {
				_ = server.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wait.Go(func() { p.pass(server, client, false) })
		p.wait.Go(func() { p.pass(client, server, true) })
	}
}

func (p *proxy) pass(to, from net.Conn, answers bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		p.mu.Lock()
		lost := answers && p.deaf
		p.mu.Unlock()
		if lost {
			return len(b), nil
		}
		return to.Write(b)
	}), from)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
