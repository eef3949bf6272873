package jetstream_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy stands between clients and a server on loopback.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	sent  []byte // by clients, since forget
	cut   bool   // nothing passes, and nobody is let in
	deaf  bool   // what the server says is lost
	upTo  []byte // it gets deaf when a client has sent this; nil for never
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

func newProxy(t *testing.T, url string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, server: strings.TrimPrefix(url, "nats://"), conns: make(map[net.Conn]bool)}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(true, false)
		p.wait.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

// deafAfter lets everything pass, and loses what the server says from when a client
// has sent the text.
func (p *proxy) deafAfter(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.upTo = false, []byte(text)
}

func (p *proxy) isDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

// forget forgets what clients have sent.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = nil
}

func (p *proxy) hasSent() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.sent)
}

// set says what passes. Connections end when the proxy is cut, and when it is not
// deaf any more: what was lost is not sent again.
func (p *proxy) set(cut, deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cut || p.deaf && !deaf {
		for c := range p.conns {
			_ = c.Close()
		}
	}
	p.cut, p.deaf, p.upTo = cut, deaf, nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
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
		if !answers {
			p.sent = append(p.sent, b...)
		}
		p.deaf = p.deaf || !answers && p.upTo != nil && bytes.Contains(b, p.upTo)
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
