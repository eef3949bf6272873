package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// This file presents a run's questions as forms of the protocol. A form is a flat object. A property
// that does not fit into a form becomes a text field that contains JSON.

// A form describes how a question is presented to a client.
type form struct {
	schema json.RawMessage
	note   string // appended to the question's text; may be empty
	read   func(content map[string]any) (any, error)
}

// formOf returns the form for a question.
func formOf(q *core.Question) form {
	if q.Awaits == record.AwaitDecision {
		decisions := `"completed","run_again","failed"`
		if canTakeOver(q) {
			decisions += `,"take_over"`
		}
		return form{
			schema: json.RawMessage(`{"type":"object","properties":{"decision":{"type":"string","enum":[` + decisions + `],"description":"whether the call took effect"},"output":{"type":"string","description":"the output of the call as JSON, if it completed"},"message":{"type":"string","description":"why the call failed, if it failed"}},"required":["decision"]}`),
			read:   fieldsReader("output"),
		}
	}
	var root struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(q.Schema, &root) == nil {
		_, approved := root.Properties["approved"]
		_, arguments := root.Properties["arguments"]
		switch {
		case root.Type == "object" && approved && arguments:
			return form{
				schema: json.RawMessage(`{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string","description":"why the call is refused"},"arguments":{"type":"string","description":"changed arguments, as a JSON object; empty to keep them"}},"required":["approved"]}`),
				read:   fieldsReader("arguments"),
			}
		case root.Type == "object" && areFlat(root.Properties):
			return form{schema: q.Schema, read: func(content map[string]any) (any, error) { return asAnswer(content) }}
		case isFlat(q.Schema):
			return form{schema: wrapSchema(q.Schema), read: func(content map[string]any) (any, error) { return asAnswer(content["answer"]) }}
		}
	}
	return form{
		schema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string","description":"in JSON"}},"required":["answer"]}`),
		note:   fmt.Sprintf("\nThe answer must be JSON that matches the schema %s", q.Schema),
		read: func(content map[string]any) (any, error) {
			text, _ := content["answer"].(string)
			return state.JSONAnswer([]byte(text))
		},
	}
}

// canTakeOver reports whether the call that a question is about can take over the effect of another
// call.
func canTakeOver(q *core.Question) bool {
	return q.InDoubt != nil && q.InDoubt.Effect.CanBeTakenOver()
}

// wrapSchema returns the schema of an object whose only property, answer, has the given schema.
func wrapSchema(schema json.RawMessage) json.RawMessage {
	return slices.Concat(json.RawMessage(`{"type":"object","properties":{"answer":`), schema, json.RawMessage(`},"required":["answer"]}`))
}

// flatKeys are the keywords that a form field's schema may contain.
var flatKeys = map[string]bool{
	"type": true, "title": true, "description": true, "enum": true, "default": true, "minimum": true, "maximum": true,
	"minLength": true, "maxLength": true,
}

// isFlat reports whether schema is allowed for a form field.
func isFlat(schema json.RawMessage) bool {
	var field map[string]json.RawMessage
	if json.Unmarshal(schema, &field) != nil {
		return false
	}
	for key := range field {
		if !flatKeys[key] {
			return false
		}
	}
	switch string(field["type"]) {
	case `"string"`, `"number"`, `"integer"`, `"boolean"`:
		return true
	}
	return false
}

func areFlat(fields map[string]json.RawMessage) bool {
	for _, schema := range fields {
		if !isFlat(schema) {
			return false
		}
	}
	return len(fields) > 0
}

// fieldsReader returns a function that reads a form whose fields are the properties of the answer.
// The field with the given name contains JSON.
func fieldsReader(name string) func(map[string]any) (any, error) {
	return func(content map[string]any) (any, error) {
		answer := make(map[string]any, len(content))
		for key, value := range content {
			text, isText := value.(string)
			if isText && text == "" {
				continue // left empty
			}
			if key == name && isText {
				if !json.Valid([]byte(text)) {
					return nil, fmt.Errorf("%s: got %q, want JSON", name, record.Truncate(text, 80))
				}
				value = json.RawMessage(text)
			}
			answer[key] = value
		}
		return asAnswer(answer)
	}
}

// asAnswer returns value in the form that state.Answer accepts.
func asAnswer(value any) (any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return state.JSONAnswer(raw)
}

// request returns the question as an elicitation request.
func request(q *core.Question) *sdk.ElicitParams {
	f := formOf(q)
	message := q.Text + f.note
	if q.Refused != "" {
		message += "\n" + q.Refused
	}
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: f.schema}
}

func requestsOf(open []core.Question) sdk.InputRequestMap {
	requests := make(sdk.InputRequestMap, len(open))
	for i := range open {
		requests[keyOfQuestion(&open[i])] = request(&open[i])
	}
	return requests
}

// keyOfQuestion returns a question's key among its run's input requests. A key is used only once: a
// question that is asked again because its answer was refused has a new key.
func keyOfQuestion(q *core.Question) string {
	if q.Refused == "" {
		return q.ID
	}
	sum := sha256.Sum256([]byte(q.Refused))
	return q.ID + "~" + hex.EncodeToString(sum[:4])
}

// answer answers a run's questions. responseTo returns the response to a question, or nil if there is
// none. Responses to unknown questions are ignored, as the protocol requires. answer reports whether
// the user declined to answer any of the questions.
func (s *server) answer(ctx context.Context, c caller, runID string, responseTo func(question string) (*sdk.ElicitResult, error)) (declined bool, err error) {
	open, err := s.questions(ctx, runID)
	if err != nil {
		return false, err
	}
	var problems []error
	for i := range open {
		q := &open[i]
		response, err := responseTo(keyOfQuestion(q))
		if response != nil {
			var left bool
			left, err = s.answerWith(ctx, c, runID, q, response)
			declined = declined || left
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("question %s: %w", q.ID, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return declined, invalid("%v", err)
	}
	return declined, nil
}

// answerWith answers a question with the result of its form. It reports whether the question is
// still open because the user declined.
func (s *server) answerWith(ctx context.Context, c caller, runID string, q *core.Question, r *sdk.ElicitResult) (left bool, err error) {
	content := r.Content
	if r.Action != "accept" {
		if r.Action != "decline" || !isApproval(q) {
			return true, nil
		}
		content = map[string]any{"approved": false, "reason": "the user declined"}
	}
	value, err := formOf(q).read(content)
	if err != nil {
		return false, err
	}
	err = s.runner.Answer(ctx, runID, q.ID, c.principal, value)
	if errors.Is(err, state.ErrAnswered) {
		err = nil // the question was already answered
	}
	return false, err
}

// isApproval reports whether a question asks for approval of a tool call.
func isApproval(q *core.Question) bool {
	var root struct {
		Properties struct {
			Approved  json.RawMessage `json:"approved"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"properties"`
	}
	return json.Unmarshal(q.Schema, &root) == nil && q.Awaits != record.AwaitDecision && root.Properties.Approved != nil && root.Properties.Arguments != nil
}

// elicit sends a run's questions, one after another, to a client with an older protocol version. It
// reports whether a question is still open.
func (s *server) elicit(ctx context.Context, c caller, runID string, open []core.Question) (declined bool, err error) {
	for i := range open {
		q := &open[i]
		response, err := c.session.Elicit(ctx, request(q))
		if err != nil {
			return false, fmt.Errorf("mcp: ask the client: %w", err)
		}
		left, err := s.answerWith(ctx, c, runID, q, response)
		if err != nil {
			return false, invalid("question %s: %v", q.ID, err)
		}
		declined = declined || left
	}
	return declined, nil
}
