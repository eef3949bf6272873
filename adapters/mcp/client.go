package mcp

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ErrClosed is wrapped by the error from a call on a closed client.
var ErrClosed = errors.New("mcp: the client is closed")

// A Client is a client of one MCP server. It connects on first use, and reconnects if the server
// dies. It is safe for concurrent use; a process needs only one Client for all its runs. Create a
// Client with [Command] or [HTTP]; the zero Client is not usable.
type Client struct {
	name    string
	where   string // describes the server in error messages
	options Options
	connect func(t *tap) (sdk.Transport, *process)

	calls   atomic.Uint64 // the number of progress tokens created so far
	dialing chan struct{} // holds one value while acquire runs, so that only one session is dialed

	mu      sync.Mutex
	session *session // nil if not connected
	closed  bool
}

// Command returns a client that runs a server as a child process and speaks the protocol over its
// standard input and output. The name of each of the client's tools begins with the client's name.
// cmd is a template: each time the server is started, the template's Path, Args, Env, Dir,
// SysProcAttr, Err and Stderr are copied, and its other fields are ignored. Command panics if the
// name or an option is invalid, or if cmd is nil.
func Command(name string, cmd *exec.Cmd, o Options) *Client {
	if cmd == nil {
		panic(fmt.Sprintf("mcp: Command %q: cmd is nil", name))
	}
	o = o.check(name, TrustHints)
	return &Client{
		name: name, where: cmd.Path, options: o, dialing: make(chan struct{}, 1),
		connect: func(t *tap) (sdk.Transport, *process) {
			p := newProcess(cmd, o.MaxResult)
			return &tappedTransport{p, t}, p
		},
	}
}

// HTTP returns a client of the server at the given URL. The client speaks the protocol over
// streamable HTTP. HTTP panics if the name or an option is invalid.
func HTTP(name, url string, o Options) *Client {
	o = o.check(name, TrustNothing)
	return &Client{
		name: name, where: url, options: o, dialing: make(chan struct{}, 1),
		connect: func(t *tap) (sdk.Transport, *process) {
			return overHTTP(url, &o, t), nil
		},
	}
}

// Name returns the client's name.
func (c *Client) Name() string { return c.name }

// A session is a connection to the server. Client.mu guards users and retired.
type session struct {
	client  *sdk.ClientSession
	tap     *tap
	process *process // nil for HTTP
	pages   sync.Map // the raw pages of the tool list, by cursor
	users   int
	retired bool // the session is closed once it has no users
}

// acquire returns the session, dialing one if there is none. The caller must release it.
func (c *Client) acquire(ctx context.Context) (*session, error) {
	select {
	case c.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.dialing }()
	if s, err := c.currentSession(); s != nil || err != nil {
		return s, err
	}
	s, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users = 1
	if s.retired = c.closed; !s.retired {
		c.session = s
	}
	return s, nil
}

// currentSession returns the current session, or nil.
func (c *Client) currentSession() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%s: %w", c.name, ErrClosed)
	}
	if c.session != nil {
		c.session.users++
	}
	return c.session, nil
}

// release ends one use of a session. A lost session is not used again; its last user closes
// it.
func (c *Client) release(s *session, lost bool) {
	c.mu.Lock()
	s.users--
	if lost {
		s.retired = true
		if c.session == s {
			c.session = nil
		}
	}
	closes := s.retired && s.users == 0
	c.mu.Unlock()
	if closes {
		s.close()
	}
}

// close closes the connection first, because the SDK's Close would wait for pending requests.
func (s *session) close() {
	_ = s.tap.Close()    // the session ends even if this fails
	_ = s.client.Close() // the session ends even if this fails
}

// Close ends the session, its pending calls, and the server's process. It may be called more than
// once.
func (c *Client) Close() error {
	c.mu.Lock()
	s := c.session
	c.session, c.closed = nil, true
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	return nil
}

// dial connects to the server.
func (c *Client) dial(ctx context.Context) (*session, error) {
	dialing, cancel := context.WithTimeoutCause(ctx, c.options.DialTimeout, fmt.Errorf("no answer within %v", c.options.DialTimeout))
	defer cancel()
	t := newTap()
	transport, process := c.connect(t)
	client, err := c.newClient().Connect(dialing, transport, nil)
	if err == nil {
		return &session{client: client, tap: t, process: process}, nil
	}
	if t.Connection != nil {
		_ = t.Close() // Connect has failed; only its error is reported
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if dialing.Err() != nil {
		err = context.Cause(dialing)
	}
	return nil, c.explain(err, process)
}

// newClient returns a client from the SDK. Each Client needs its own SDK client, because
// capabilities are declared for each SDK client.
func (c *Client) newClient() *sdk.Client {
	capabilities := new(sdk.ClientCapabilities)
	capabilities.AddExtension(tasksExtension, nil)
	client := sdk.NewClient(&sdk.Implementation{Name: "reprise", Version: version()}, &sdk.ClientOptions{
		Capabilities:   capabilities,
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	for _, method := range []string{methodGetTask, methodCancelTask} {
		if err := sdk.AddSendingCustomMethod[*taskParams, *taskResult](client, method); err != nil {
			panic(err) // cannot happen: the method is not a standard method
		}
	}
	return client
}

// explain adds what an error from the SDK lacks: the server's name, how its process ended, and the
// likely cause.
func (c *Client) explain(err error, p *process) error {
	said := ""
	if p != nil {
		said = p.ending()
	}
	var hint string
	if isSyntax(err) && p != nil {
		hint = "the server writes something other than messages to its standard output"
	}
	for _, more := range []string{hint, said} {
		if more != "" {
			err = fmt.Errorf("%w (%s)", err, more)
		}
	}
	return fmt.Errorf("mcp: %s: %w", c.name, err)
}
