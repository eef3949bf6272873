package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Relay reads a client's messages from in and sends them to the server at the URL. It writes the
// server's messages to out. Relay lets a client that can only start commands use a running service.
// Relay returns at the end of the input. Only the options HTTPClient, Headers and MaxResult are
// used.
func Relay(ctx context.Context, in io.ReadCloser, out io.WriteCloser, url string, o Options) error {
	o = o.check("relay", TrustNothing)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	near, err := (&sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: o.MaxResult}).Connect(ctx)
	if err != nil {
		return err
	}
	t := newTap()
	far, err := overHTTP(url, &o, t).Connect(ctx)
	if err != nil {
		return err
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			m, err := far.Read(ctx)
			if err != nil {
				return
			}
			if near.Write(ctx, m) != nil {
				return
			}
		}
	})
	err = passAll(ctx, near, far, &passing)
	cancel()
	_ = far.Close() // there is nothing left to pass on
	passing.Wait()
	_ = near.Close() // there is nothing left to pass on
	return err
}

// passAll passes on a client's messages until there are no more. Each request runs in its own
// goroutine until its response begins, so that requests do not wait for each other. The initialize
// request is passed on alone, because it negotiates the protocol.
func passAll(ctx context.Context, near, far sdk.Connection, passing *sync.WaitGroup) error {
	for {
		m, err := near.Read(ctx)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("mcp: relay: %w", err)
		}
		request, ok := m.(*jsonrpc.Request)
		if !ok || !request.IsCall() || request.Method == "initialize" {
			pass(ctx, near, far, m)
			continue
		}
		passing.Go(func() { pass(ctx, near, far, m) })
	}
}

// pass passes on a message. If this fails and the message is a request, the client gets an error as
// the response.
func pass(ctx context.Context, near, far sdk.Connection, m jsonrpc.Message) {
	err := far.Write(ctx, m)
	request, ok := m.(*jsonrpc.Request)
	if err == nil || !ok || !request.IsCall() {
		return
	}
	refused := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && wire.Code != codeRejected {
		refused = wire
	}
	_ = near.Write(ctx, &jsonrpc.Response{ID: request.ID, Error: refused}) // the client may have disconnected
}

// codeRejected is the code that the SDK uses for requests that its transport rejects.
const codeRejected = -32005

// overHTTP returns the transport to a server at a URL.
func overHTTP(url string, o *Options, t *tap) sdk.Transport {
	client := http.Client{}
	if o.HTTPClient != nil {
		client = *o.HTTPClient
	}
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = &tappedRoundTripper{next, o.Headers, o.MaxResult, t}
	return &tappedTransport{&sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &client, DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: o.MaxResult,
	}, t}
}
