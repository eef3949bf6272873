package campaign

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Proxy forwards connections from clients to a server on loopback. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	sent  []byte // data that clients have sent since the last Forget
	cut   bool   // no data passes, and connections are refused
	deaf  bool   // data from the server is dropped
	upTo  []byte // the proxy becomes deaf when a client has sent this; nil means never
	delay time.Duration
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

// NewProxy returns a proxy for the server at host:port. The proxy is closed when the test ends.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: listener, server: server, conns: make(map[net.Conn]bool)}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Set(true, false)
		p.wait.Wait()
	})
	return p
}

// Addr returns the host and port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set sets what passes: nothing if the proxy is cut, and no data from the server if the proxy
// is deaf. Connections end when the proxy is cut. They also end when it stops being deaf,
// because dropped data is not sent again.
func (p *Proxy) Set(cut, deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cut || p.deaf && !deaf {
		for c := range p.conns {
			_ = c.Close()
		}
	}
	p.cut, p.deaf, p.upTo = cut, deaf, nil
}

// DeafAfter lets all data pass until a client has sent the text. From then on, data from the server
// is dropped.
func (p *Proxy) DeafAfter(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.upTo = false, []byte(text)
}

// IsDeaf reports whether data from the server is dropped.
func (p *Proxy) IsDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

// Delay delays data from the server: each part of the data, at most 32 KB long, arrives d later.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Sent returns the data that clients have sent since the last Forget.
func (p *Proxy) Sent() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.sent)
}

// Forget discards the data that Sent returns.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server) //nolint:noctx // it ends when the proxy is cut
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

// pass copies data from one side to the other until either side has closed its connection.
func (p *Proxy) pass(to, from net.Conn, answers bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		if p.loses(b, answers) {
			return len(b), nil
		}
		if answers {
			p.mu.Lock()
			delay := p.delay
			p.mu.Unlock()
			time.Sleep(delay) //nolint:forbidigo // the connection is slow
		}
		return to.Write(b)
	}), from)
}

// loses reports whether the data is dropped. It remembers data from clients.
func (p *Proxy) loses(b []byte, isAnswer bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isAnswer {
		p.sent = append(p.sent, b...)
		p.deaf = p.deaf || p.upTo != nil && bytes.Contains(b, p.upTo)
	}
	return isAnswer && p.deaf
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
