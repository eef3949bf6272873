package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/core"
)

// A client of the user's own is asked through go-openai's types: what they do
// not know cannot be sent and is not seen, and its streams do not show the
// headers of a failure.

// sendForeign makes the request and hands the reply to the wire.
func (x *exchange) sendForeign(ctx context.Context, client *goopenai.Client, w wire, a *answer, body []byte, silence *silence) error {
	if _, ok := w.(chatWire); ok {
		var req goopenai.ChatCompletionRequest
		if err := carry(body, &req); err != nil {
			return err
		}
		if !x.stream {
			reply, err := client.CreateChatCompletion(ctx, req)
			return x.readForeign(w, a, reply, reply.Header(), err)
		}
		stream, err := client.CreateChatCompletionStream(ctx, req)
		if err != nil {
			x.blind = true
			return err
		}
		defer func() { _ = stream.Close() }() // it was only read
		return x.readForeignStream(w, a, stream.RecvRaw, silence)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	req := goopenai.CreateResponseRequest{ExtraBody: fields}
	delete(fields, "stream")
	if !x.stream {
		reply, err := client.CreateResponse(ctx, req)
		return x.readForeign(w, a, reply, reply.Header(), err)
	}
	fields["stream"] = true
	stream, err := client.CreateResponseStream(ctx, req)
	if err != nil {
		x.blind = true
		return err
	}
	defer func() { _ = stream.Close() }() // it was only read
	return x.readForeignStream(w, a, stream.RecvRaw, silence)
}

func (x *exchange) readForeign(w wire, a *answer, reply any, header map[string][]string, err error) error {
	x.replied = header
	if header != nil {
		x.status = 200 // or a failure, which knows better
	}
	if err != nil {
		if header != nil && !isRefusal(err) {
			err = malformed(err)
		}
		return err
	}
	data, err := json.Marshal(reply)
	if err != nil {
		return malformed(err)
	}
	a.keepReply(data, false)
	complete, err := w.read(a, data)
	if err == nil && !complete {
		err = errCut
	}
	return err
}

func (x *exchange) readForeignStream(w wire, a *answer, receive func() ([]byte, error), silence *silence) error {
	x.status = 200
	complete := false
	for {
		event, err := receive()
		silence.heard()
		switch {
		case errors.Is(err, io.EOF) && (complete || !a.isEmpty() && a.finish != ""):
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w (a client given by WithClient does not show what ended it)", errCut)
		case err != nil:
			return err
		}
		a.keepReply(event, true)
		done, err := w.event(a, event)
		complete = complete || done
		if err != nil {
			if errors.Is(err, errDone) && complete {
				return nil
			}
			return err
		}
	}
}

func isRefusal(err error) bool {
	var (
		api  *goopenai.APIError
		body *goopenai.RequestError
	)
	return errors.As(err, &api) || errors.As(err, &body)
}

// foreignRefusal is the service's own error as go-openai has it; nil if err is
// none.
func (x *exchange) foreignRefusal(err error) *Error {
	var (
		api  *goopenai.APIError
		body *goopenai.RequestError
	)
	readable := errors.As(err, &api)
	if readable {
		api.Message = x.redact(api.Message)
	}
	if errors.As(err, &body) { // it may wrap an APIError that could be read in part
		body.Body = []byte(x.redact(string(body.Body[:min(len(body.Body), maxFailure)])))
		e := errorOfBody(body.Body)
		e.Status, e.err = body.HTTPStatusCode, body
		return e
	}
	if !readable {
		return nil
	}
	w := wireError{Message: lenientText(api.Message), Type: lenientText(api.Type)}
	if api.Param != nil {
		w.Param = lenientText(*api.Param)
	}
	if code, ok := api.Code.(string); ok {
		w.Code = lenientText(code)
	} else if code, ok := api.Code.(int); ok && code != 0 {
		w.Code = lenientText(fmt.Sprint(code))
	}
	if api.InnerError != nil {
		w.Inner.Code = lenientText(api.InnerError.Code)
	}
	e := errorOf(w)
	e.err = api // what is around it has its text as it was
	if api.HTTPStatusCode != 0 {
		e.Status = api.HTTPStatusCode
	}
	return e
}

// carry reads body into a request of go-openai's, and says what it could not
// take along.
func carry(body []byte, into *goopenai.ChatCompletionRequest) error {
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
	if lost := missing("", want, got); lost != "" {
		return cannotSend(lost)
	}
	return nil
}

func cannotSend(what string) error {
	return core.Permanent(fmt.Errorf("openai: a client given by WithClient cannot send %s; have openai.New make the client (WithAPIKey, WithBaseURL, WithHTTPClient)", what))
}

// missing is the path of the first value in want that got has not.
func missing(path string, want, got any) string {
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
			if lost := missing(inner, value, fields[key]); lost != "" {
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
			if lost := missing(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); lost != "" {
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
