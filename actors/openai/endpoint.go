package openai

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/core"
)

// An endpoint holds the address and credentials of a service. For a client passed to
// WithClient, only the field client is set.
type endpoint struct {
	baseURL      string
	key          string // empty if there is no key
	azureVersion string // API version of Azure; empty for other services
	header       http.Header
	client       goopenai.HTTPDoer
}

func newEndpoint(m *Model) endpoint {
	e := endpoint{
		baseURL: strings.TrimRight(m.BaseURL, "/"), key: m.APIKey, azureVersion: m.AzureAPIVersion,
		header: make(http.Header), client: http.DefaultClient,
	}
	if m.HTTPClient != nil {
		e.client = m.HTTPClient
	}
	for name, values := range m.Header {
		e.header[http.CanonicalHeaderKey(name)] = values
	}
	return e
}

// request returns the HTTP request for a model. If body is nil, name is the ID of a
// response to retrieve.
func (e *endpoint) request(ctx context.Context, w wire, name string, body []byte, stream bool) (*http.Request, error) {
	method, content := http.MethodPost, io.Reader(bytes.NewReader(body))
	path := e.path(w.path(), name)
	if body == nil {
		method, content = http.MethodGet, nil
		path = e.path(w.path()+"/"+url.PathEscape(name), name)
	}
	req, err := http.NewRequestWithContext(ctx, method, e.baseURL+path, content)
	if err != nil {
		return nil, core.Permanent(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	if stream {
		req.Header["Accept"], req.Header["Cache-Control"] = []string{"text/event-stream"}, []string{"no-cache"}
	}
	switch {
	case e.key == "":
	case e.azureVersion != "":
		req.Header[http.CanonicalHeaderKey(goopenai.AzureAPIKeyHeader)] = []string{e.key}
	default:
		req.Header["Authorization"] = []string{"Bearer " + e.key}
	}
	for name, values := range e.header {
		req.Header[name] = values
	}
	return req, nil
}

// path adds Azure's path elements and query to the path of an API.
func (e *endpoint) path(path, name string) string {
	if e.azureVersion == "" {
		return path
	}
	if path == chatPath {
		path = "/deployments/" + url.PathEscape(name) + path
	}
	return "/openai" + path + "?api-version=" + url.QueryEscape(e.azureVersion)
}

// The paths of the APIs.
const (
	chatPath      = "/chat/completions"
	responsesPath = "/responses"
)
