package browser

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy is a proxy between the browser and a server. It simulates network failures.
type proxy struct {
	t        *testing.T
	listener net.Listener
	target   string
	accepted sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]struct{}
	refuse  bool // cut every new connection
	swallow bool // drop all data of new connections silently
	heads   []string
}

// link is a connection from the browser, together with the proxy's connection to the server.
type link struct {
	browser, server *net.TCPConn
	dead            chan struct{} // closed when all further data is dropped
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{t: t, listener: listener, target: target, links: make(map[*link]struct{})}
	p.accepted.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut(false)
		p.accepted.Wait()
	})
	return p
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() + "/" }

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			reset(conn.(*net.TCPConn))
			continue
		}
		server, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", p.target)
		if err != nil {
			reset(conn.(*net.TCPConn))
			continue
		}
		l := &link{browser: conn.(*net.TCPConn), server: server.(*net.TCPConn), dead: make(chan struct{})}
		p.mu.Lock()
		p.links[l] = struct{}{}
		if p.swallow {
			close(l.dead)
		}
		p.mu.Unlock()
		p.accepted.Go(func() { p.carry(l, l.server, l.browser, true) })
		p.accepted.Go(func() { p.carry(l, l.browser, l.server, false) })
	}
}

// carry copies data from one side to the other until either of them is closed. If the link is dead,
// it drops the data.
func (p *proxy) carry(l *link, to, from *net.TCPConn, requests bool) {
	defer p.end(l)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-l.dead:
			continue
		default:
		}
		if requests {
			p.note(buffer[:n])
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// note stores the headers of requests. A browser on the same machine sends the headers of a request
// in one piece.
func (p *proxy) note(data []byte) {
	if i := bytes.Index(data, []byte("\r\n\r\n")); i >= 0 {
		p.mu.Lock()
		p.heads = append(p.heads, string(data[:i]))
		p.mu.Unlock()
	}
}

// lastEventIDs returns the values of the Last-Event-ID headers of all requests.
func (p *proxy) lastEventIDs() (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, head := range p.heads {
		for line := range strings.SplitSeq(head, "\r\n") {
			if id, ok := strings.CutPrefix(line, "Last-Event-ID: "); ok {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func (p *proxy) end(l *link) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	_, _ = l.browser.Close(), l.server.Close()
}

// cut closes all connections, either with an RST, as after a crash, or with a FIN.
func (p *proxy) cut(rst bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if rst {
			reset(l.browser)
		}
		_, _ = l.browser.Close(), l.server.Close()
	}
}

// sleep lets all existing connections go dead silently, as when a laptop changes networks. New
// connections work if newOnes is true.
func (p *proxy) sleep(newOnes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = !newOnes
	for l := range p.links {
		select {
		case <-l.dead:
		default:
			close(l.dead)
		}
	}
}

// wake makes new connections work.
func (p *proxy) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow, p.refuse = false, false
}

// block cuts all connections, existing and new.
func (p *proxy) block() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.cut(true)
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
