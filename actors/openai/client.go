package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/core"
)

// A clientDoer sends requests through the user's own go-openai client. Such a client does not
// expose its base URL and key, and takes method calls instead of HTTP requests. Fields unknown to
// its types cannot be sent or received, and its streams do not expose the headers of a failed
// request.
type clientDoer struct{ client *goopenai.Client }

// Do implements [goopenai.HTTPDoer]. The header of a response is nil if the client does
// not expose it.
func (d clientDoer) Do(req *http.Request) (*http.Response, error) {
	ctx, stream := req.Context(), req.Header.Get("Accept") == "text/event-stream"
	if id, ok := strings.CutPrefix(req.URL.Path, responsesPath+"/"); ok {
		reply, err := d.client.RetrieveResponse(ctx, id)
		return responseOf(reply, reply.Header(), err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if req.URL.Path == chatPath {
		return d.chat(ctx, body, stream)
	}
	return d.respond(ctx, body, stream)
}

func (d clientDoer) chat(ctx context.Context, body []byte, stream bool) (*http.Response, error) {
	var req goopenai.ChatCompletionRequest
	if err := decodeRequest(body, &req); err != nil {
		return nil, err
	}
	if !stream {
		reply, err := d.client.CreateChatCompletion(ctx, req)
		return responseOf(reply, reply.Header(), err)
	}
	events, err := d.client.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return responseOf(nil, nil, err)
	}
	return streamOf(events), nil
}

func (d clientDoer) respond(ctx context.Context, body []byte, stream bool) (*http.Response, error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	req := goopenai.CreateResponseRequest{ExtraBody: fields}
	if !stream {
		reply, err := d.client.CreateResponse(ctx, req)
		return responseOf(reply, reply.Header(), err)
	}
	events, err := d.client.CreateResponseStream(ctx, req)
	if err != nil {
		return responseOf(nil, nil, err)
	}
	return streamOf(events), nil
}

// responseOf returns an HTTP response for a reply or an error from the client.
func responseOf(reply any, header http.Header, err error) (*http.Response, error) {
	var (
		refusal *goopenai.APIError
		other   *goopenai.RequestError
	)
	switch {
	case errors.As(err, &other): // may wrap an APIError that was only partly decoded
		return response(other.HTTPStatusCode, other.HTTPStatus, header, other.Body), nil
	case errors.As(err, &refusal):
		body, err := json.Marshal(goopenai.ErrorResponse{Error: refusal})
		return response(refusal.HTTPStatusCode, refusal.HTTPStatus, header, body), err
	case err != nil && header != nil:
		return nil, &replyError{header, malformed(err)}
	case err != nil:
		return nil, err
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return nil, &replyError{header, malformed(err)}
	}
	return response(http.StatusOK, "200 OK", header, body), nil
}

func response(status int, text string, header http.Header, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Status: text, Header: header, Body: io.NopCloser(bytes.NewReader(body))}
}

// A replyError is a successful reply that go-openai cannot decode.
type replyError struct {
	header http.Header
	err    error
}

// Error returns the message of go-openai's error.
func (e *replyError) Error() string { return e.err.Error() }

func (e *replyError) Unwrap() error { return e.err }

// A receiver is a go-openai stream.
type receiver interface {
	RecvRaw() ([]byte, error)
	Close() error
}

func streamOf(events receiver) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &streamBody{events: events}}
}

// A streamBody is the body of a go-openai stream, as server-sent events.
type streamBody struct {
	events receiver
	rest   []byte // unread rest of an event
	err    error  // returned after rest
}

// Read implements [io.Reader].
func (b *streamBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		event, err := b.events.RecvRaw()
		b.err = err
		var failure *goopenai.APIError
		if errors.As(err, &failure) {
			if event, err = json.Marshal(goopenai.ErrorResponse{Error: failure}); err == nil {
				b.err = io.EOF
			}
		}
		if len(event) > 0 {
			b.rest = append(append([]byte("data: "), event...), "\n\n"...)
		}
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) > 0 {
		return n, nil
	}
	return n, b.err
}

// Close closes the stream.
func (b *streamBody) Close() error { return b.events.Close() }

// decodeRequest decodes body into a request of go-openai. It returns an error if the type cannot
// represent all of body.
func decodeRequest(body []byte, into *goopenai.ChatCompletionRequest) error {
	if err := json.Unmarshal(body, into); err != nil {
		return cannotSend(err.Error())
	}
	again, err := json.Marshal(into)
	if err != nil {
		return cannotSend(err.Error())
	}
	var want, got any
	if json.Unmarshal(body, &want) != nil || json.Unmarshal(again, &got) != nil {
		return cannotSend("the request")
	}
	if lost := firstMissing("", want, got); lost != "" {
		return cannotSend(lost)
	}
	return nil
}

func cannotSend(what string) error {
	return core.Permanent(fmt.Errorf("openai: a client passed to WithClient cannot send %s; let openai.New create the client (WithAPIKey, WithBaseURL, WithHTTPClient)", what))
}

// firstMissing returns the path of the first value in want that is missing from got, or "".
func firstMissing(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			return path
		}
		for key, value := range want {
			inner := key
			if path != "" {
				inner = path + "." + key
			}
			if lost := firstMissing(inner, value, fields[key]); lost != "" {
				return lost
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return path
		}
		for i := range want {
			if lost := firstMissing(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); lost != "" {
				return lost
			}
		}
		return ""
	case float64:
		if number, ok := got.(float64); ok && float32(number) == float32(want) {
			return ""
		}
		return path
	}
	if want != got {
		return path
	}
	return ""
}
