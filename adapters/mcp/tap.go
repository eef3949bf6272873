package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/core/live"
)

// A tap sees the messages of a session before the SDK does. It keeps the raw responses to
// registered requests, because the SDK loses the digits of large numbers, the order of properties,
// and anything it does not know, such as tasks. It also records whether each request was sent and
// whether a response arrived, which the SDK's errors do not show.
type tap struct {
	sdk.Connection

	mu      sync.Mutex
	version string               // the negotiated protocol version; empty if initialize was not used
	tokens  map[string]*exchange // by progress token
	pending map[jsonrpc.ID]*exchange
}

// An exchange is a request and its response.
type exchange struct {
	name string           // value of the Mcp-Name header; empty if the SDK sets it
	emit func(live.Delta) // receives the request's progress; may be nil

	mu       sync.Mutex
	sent     bool              // the server may have received the request
	unread   bool              // the context ended before the server had read the request
	status   int               // HTTP status; 0 if there was none, for example on stdio
	tooLarge bool              // the response is larger than the limit
	response *jsonrpc.Response // nil if no response arrived
}

// A tappedTransport makes connections whose messages pass through a tap.
type tappedTransport struct {
	transport sdk.Transport
	tap       *tap
}

func newTap() *tap {
	return &tap{tokens: make(map[string]*exchange), pending: make(map[jsonrpc.ID]*exchange)}
}

// Connect implements sdk.Transport.
func (t *tappedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	connection, err := t.transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.tap.Connection = connection
	return t.tap, nil
}

// expect registers an exchange for the request with the given progress token. emit receives the
// request's progress and may be nil. forget removes the exchange.
func (t *tap) expect(token, name string, emit func(live.Delta)) (e *exchange, forget func()) {
	e = &exchange{name: name, emit: emit}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens[token] = e
	return e, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.tokens, token)
		for id, pending := range t.pending {
			if pending == e {
				delete(t.pending, id)
			}
		}
	}
}

// isAlone reports whether e is the only request that waits for a response.
func (t *tap) isAlone(e *exchange) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pending := range t.pending {
		if pending != e {
			return false
		}
	}
	return true
}

// exchangeKey is the context key for the exchange of an HTTP request.
type exchangeKey struct{}

// Write implements sdk.Connection.
func (t *tap) Write(ctx context.Context, m jsonrpc.Message) error {
	e := t.begin(m)
	if e == nil {
		return t.Connection.Write(ctx, m)
	}
	err := t.Connection.Write(context.WithValue(ctx, exchangeKey{}, e), m)
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.unread = errors.Is(err, errUnread)
		if isUnsent(err) {
			e.sent = e.status != 0
		}
	}
	return err
}

// begin returns the exchange for a request that is about to be sent, or nil for any other message.
func (t *tap) begin(m jsonrpc.Message) *exchange {
	request, ok := m.(*jsonrpc.Request)
	if !ok || !request.IsCall() {
		return nil
	}
	var params struct {
		Meta struct {
			Token any `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(request.Params, &params) != nil {
		return nil
	}
	token, _ := params.Meta.Token.(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.tokens[token]
	if e != nil {
		t.pending[request.ID] = e
		e.mu.Lock()
		e.sent = true
		e.mu.Unlock()
	}
	return e
}

// isUnsent reports whether a write error means that the request did not reach the server: the
// connection was refused, the process no longer reads, or nothing was written.
func isUnsent(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, errUnwritten)
}

// Read implements sdk.Connection.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := t.Connection.Read(ctx)
	if err != nil {
		return m, err
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		t.end(m)
	case *jsonrpc.Request:
		if m.Method == "notifications/progress" {
			t.progress(m.Params)
		}
	}
	return m, nil
}

// progress emits the progress of a request at once. The SDK would report it only after the
// response.
func (t *tap) progress(params json.RawMessage) {
	var p sdk.ProgressNotificationParams
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	t.mu.Lock()
	e := t.tokens[token]
	t.mu.Unlock()
	if e != nil && e.emit != nil {
		e.emit(live.Delta{Part: live.PartProgress, Text: progressText(&p)})
	}
}

// progressText returns the server's progress message, and how much of the total is done.
func progressText(p *sdk.ProgressNotificationParams) string {
	done := fmt.Sprint(p.Progress)
	if p.Total > 0 {
		done += fmt.Sprintf("/%v", p.Total)
	}
	if p.Message != "" {
		return p.Message + " (" + done + ")"
	}
	return done
}

func (t *tap) end(r *jsonrpc.Response) {
	var negotiated struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.version == "" && len(r.Result) < maxHandshake && json.Unmarshal(r.Result, &negotiated) == nil {
		t.version = negotiated.ProtocolVersion
	}
	e := t.pending[r.ID]
	var wire *jsonrpc.Error
	if e == nil || r.Error != nil && !errors.As(r.Error, &wire) { // the SDK creates such an error when a stream has ended
		return
	}
	delete(t.pending, r.ID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.response = r
}

// maxHandshake is the maximum size, in bytes, of a response to initialize.
const maxHandshake = 1 << 20

// negotiated returns the protocol version in the response to initialize, or "" if there was no such
// response.
func (t *tap) negotiated() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// A tappedRoundTripper sets headers that the SDK does not set, and observes status codes.
type tappedRoundTripper struct {
	next    http.RoundTripper
	headers http.Header
	limit   int // maximum size of a message from the server, in bytes
	tap     *tap
}

// RoundTrip implements http.RoundTripper.
func (t *tappedRoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for key, values := range t.headers {
		r.Header[key] = values
	}
	if version := t.tap.negotiated(); version != "" && r.Header.Get("Mcp-Protocol-Version") == "" {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	e, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if e != nil && e.name != "" {
		r.Header.Set("Mcp-Name", e.name)
	}
	response, err := t.next.RoundTrip(r)
	if e != nil && err == nil {
		e.mu.Lock()
		e.status = response.StatusCode
		e.mu.Unlock()
	}
	if err == nil {
		isStream := strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
		response.Body = &limitedBody{ReadCloser: response.Body, exchange: e, limit: t.limit, byLine: isStream}
	}
	return response, err
}

// errTooLarge is returned when a body contains a message larger than the limit.
var errTooLarge = errors.New("the message is too large")

// A limitedBody returns an error once a message exceeds the limit. In a stream, each message is
// one line.
type limitedBody struct {
	io.ReadCloser
	exchange *exchange // nil if no request waits for this body
	limit    int
	byLine   bool
	read     int // bytes of the current message read so far
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += n
	if last := bytes.LastIndexByte(p[:n], '\n'); b.byLine && last >= 0 {
		b.read = n - last - 1
	}
	if b.read <= b.limit {
		return n, err
	}
	if e := b.exchange; e != nil {
		e.mu.Lock()
		e.tooLarge = true
		e.mu.Unlock()
	}
	return 0, errTooLarge
}

// A fate is the outcome of an exchange.
type fate struct {
	sent     bool
	unread   bool
	status   int
	tooLarge bool
	response *jsonrpc.Response
}

func (e *exchange) fate() fate {
	e.mu.Lock()
	defer e.mu.Unlock()
	return fate{e.sent, e.unread, e.status, e.tooLarge, e.response}
}

// tokenOf returns the n-th progress token.
func tokenOf(n uint64) string { return "reprise-" + strconv.FormatUint(n, 10) }
