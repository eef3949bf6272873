package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// An Error is a failure that the service reported. Its texts, and those of
// the error that it wraps, do not show the API key that was sent. errors.As
// finds it live and in what was recorded; errors.Is finds what it means in
// [actors.ErrContextTooLong] and its neighbours.
type Error struct {
	Status    int    // of the HTTP response, 400 or more; 0 if it was reported in a reply or a stream without one
	Type      string // such as "invalid_request_error"; empty if the service named none
	Code      string // such as "rate_limit_exceeded"; empty if the service named none
	Param     string // the field of the request that is wrong; empty if the service named none
	Message   string // in the words of the service
	RequestID string // by which the service's support finds the request; empty if there is none

	err       error         // of go-openai; nil in what was recorded
	delay     time.Duration // that the body asks for; 0 for none
	generated string        // what the model wrote, where that is what was refused
}

// Error is a line such as `openai: status 429, type requests, code
// rate_limit_exceeded, request req_1: Rate limit reached`.
func (e *Error) Error() string {
	var parts []string
	if e.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", e.Status))
	}
	for _, part := range [...]struct{ name, value string }{
		{"type", e.Type}, {"code", e.Code}, {"param", e.Param}, {"request", e.RequestID},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	text := "openai: " + strings.Join(parts, ", ")
	switch {
	case e.Message == "":
		return text
	case len(parts) == 0:
		return text + e.Message
	}
	return text + ": " + e.Message
}

// Unwrap returns the error as go-openai has it: *goopenai.APIError, or
// *goopenai.RequestError for a body of another form. Nil for an error in a reply or a
// stream, and in what was recorded.
func (e *Error) Unwrap() error { return e.err }

// HTTPStatusCode is the status, for [record.Classify].
func (e *Error) HTTPStatusCode() int { return e.Status }

// Class is what type and code mean, where there is no status.
func (e *Error) Class() record.Class {
	kind := strings.ToLower(e.Type + " " + e.Code)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(kind, word) })
	}
	switch {
	case e.Status != 0:
		return record.ClassUnknown // the status decides
	case has("rate_limit", "too_many_requests", "resource_exhausted"):
		return record.ClassRateLimit
	case has("invalid", "not_found", "permission", "authentication", "unsupported", "context_length"):
		return record.ClassClient
	}
	return record.ClassServer // it had accepted the request
}

// Is matches what the failure means: [actors.ErrContextTooLong],
// [actors.ErrQuota], [actors.ErrFiltered], [actors.ErrFormatUnsupported].
func (e *Error) Is(target error) bool { return target != nil && e.meaning() == target }

func (e *Error) meaning() error {
	text := strings.ToLower(e.Message)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	named := func(names ...string) bool {
		return slices.Contains(names, e.Code) || slices.Contains(names, e.Type)
	}
	refused := e.Status == 400 || e.Status == 413 || e.Status == 422 || e.Status == 0
	tooLong := (refused || e.Status == 500) && says(contextTooLong...) || e.Status == http.StatusRequestEntityTooLarge ||
		e.Status == http.StatusTooManyRequests && says("request too large")
	switch {
	case e.Status == http.StatusPaymentRequired, named("insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "insufficient_balance", "credit_balance_too_low"):
		return actors.ErrQuota
	case tooLong, named("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "string_above_max_length", "model_max_prompt_tokens_exceeded", "request_too_large"):
		return actors.ErrContextTooLong
	case named("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "data_inspection_failed", "invalid_prompt"):
		return actors.ErrFiltered
	case refused && (strings.HasPrefix(e.Param, "response_format") || strings.HasPrefix(e.Param, "text.format") || says("response_format", "json_schema")):
		return actors.ErrFormatUnsupported
	}
	return nil
}

// mistake returns what the model wrote where a service refuses that, and not the
// request. It is for the model to correct: the same request may fail again and again.
func mistake(err error) (resp actors.Response, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return resp, false
	}
	switch e.Code {
	case "tool_use_failed":
		resp.Finish = actors.FinishMalformedCall
	case "json_validate_failed":
		resp.Finish = actors.FinishStop
	default:
		return resp, false
	}
	resp.Message, resp.FinishReason = actors.Assistant(e.generated), e.Code
	if e.Message != "" {
		resp.FinishReason += ": " + e.Message
	}
	if e.generated == "" && resp.Finish == actors.FinishStop {
		return resp, false // nothing to correct
	}
	return resp, true
}

// contextTooLong are what services say about a conversation that is too long, in
// lower case.
var contextTooLong = []string{
	"maximum context length", "context length exceeded", "context_length_exceeded", "context window", // OpenAI, vLLM, Together, DeepSeek, OpenRouter
	"exceeds the available context", "exceeds the context", // llama.cpp, Ollama
	"prompt is too long", "exceed context limit", // Anthropic, Fireworks
	"input is too long", "input tokens exceeds maximum", // Bedrock
	"too long to fit into the model", "longer than the maximum model length", "model's context length", // vLLM
	"token count exceeds", "exceeds the maximum allowed length", // SGLang
	"maximum prompt length",                                         // xAI
	"`inputs` tokens + `max_new_tokens`", "`inputs` must have less", // Together, TGI
	"context length of only", "greater than the context length", "context overflow", "n_keep", // LM Studio
	"exceeded model token limit", "input token length too long", // Kimi
	"range of input length",                           // Qwen
	"too many tokens:",                                // Cohere
	"input token count",                               // Gemini
	"too large for model with",                        // Mistral
	"prompt token count", "prompt exceeds max length", // Copilot, GLM
	"reduce the length of the messages", "reduce the length of the input", // Groq, Cerebras, vLLM
}

func init() { record.RegisterErrorType[*Error]("openai.Error") }

// judge marks e where the service knows better than its status says whether
// to try again.
func judge(e *Error, header http.Header) error {
	shouldRetry := header.Get("X-Should-Retry")
	switch {
	case shouldRetry == "false", e.meaning() != nil:
		return core.Permanent(e)
	case shouldRetry == "true":
		return core.Retryable(e)
	}
	return e
}

var (
	errNoChoices = errors.New("openai: the reply has no choices")

	// errDone ends a stream that its service has ended.
	errDone = errors.New("done")

	// errCut is a stream that ended in the middle.
	errCut = fmt.Errorf("openai: the stream ended before the answer did: %w", io.ErrUnexpectedEOF)
)

func malformed(err error) error { return fmt.Errorf("openai: malformed reply: %w", err) }

// wireError is the error object of all services together.
type wireError struct {
	Message lenientText `json:"message"`
	Type    lenientText `json:"type"`
	Code    lenientText `json:"code"`
	Param   lenientText `json:"param"`
	Wrote   lenientText `json:"failed_generation"` // Groq's
	Status  lenientText `json:"status"`            // Google's word for the type
	Details []struct {
		RetryDelay string `json:"retryDelay"`
	} `json:"details"` // Google's
	Inner struct {
		Code lenientText `json:"code"`
	} `json:"innererror"` // Azure's
	Metadata struct {
		Raw lenientText `json:"raw"`
	} `json:"metadata"` // OpenRouter's: the words of the service behind it
}

// errorIn reads the error object in a reply; nil if there is none. Some services
// send an empty one with each success.
func errorIn(raw json.RawMessage) error {
	switch string(raw) {
	case "", "null", "false", "0", `""`, "{}", "[]":
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return &Error{Message: record.Truncate(text, maxMessage)}
	}
	var w wireError
	err := json.Unmarshal(raw, &w)
	if isZero(raw) {
		return nil // a service that leaves no field out
	}
	if err != nil && w.Message == "" {
		return &Error{Message: record.Truncate(string(raw), maxMessage)}
	}
	return errorOf(w)
}

// isZero reports whether there is nothing but zero values in a document.
func isZero(document json.RawMessage) bool {
	var v any
	return json.Unmarshal(document, &v) == nil && isZeroValue(v)
}

func isZeroValue(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if !isZeroValue(member) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !isZeroValue(item) })
	}
	return v == nil || v == false || v == 0.0 || v == ""
}

const maxMessage = 2000

func errorOf(w wireError) *Error {
	e := &Error{
		Type: string(w.Type), Code: string(w.Code), Param: string(w.Param),
		Message: record.Truncate(string(w.Message), maxMessage), generated: string(w.Wrote),
	}
	if e.Type == "" {
		e.Type = string(w.Status)
	}
	if w.Metadata.Raw != "" {
		e.Message = record.Truncate(e.Message+": "+string(w.Metadata.Raw), maxMessage)
	}
	if inner := string(w.Inner.Code); inner == "ResponsibleAIPolicyViolation" {
		e.Code = "content_filter"
	}
	// A number is a status, and no code.
	if n, err := strconv.Atoi(e.Code); err == nil {
		e.Code = ""
		if n >= 400 && n <= 599 {
			e.Status = n
		} else if n != 0 {
			e.Code = string(w.Code)
		}
	}
	for _, detail := range w.Details {
		if d, err := time.ParseDuration(detail.RetryDelay); err == nil {
			e.delay = max(e.delay, d)
		}
	}
	return e
}

// errorOfBody reads the body of a failure. One of another form is shown in
// short.
func errorOfBody(body []byte) *Error {
	var reply struct {
		Error   json.RawMessage `json:"error"`
		Message lenientText     `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	trimmed := strings.TrimSpace(string(body))
	var list []json.RawMessage
	if json.Unmarshal([]byte(trimmed), &list) == nil && len(list) > 0 {
		trimmed = string(list[0]) // Google's errors come in a list
	}
	if json.Unmarshal([]byte(trimmed), &reply) == nil && isSet(reply.Error) {
		var e *Error
		if err := errorIn(reply.Error); errors.As(err, &e) && e.Message+e.Code+e.Type != "" {
			if e.Message == "" {
				e.Message = string(reply.Message)
			}
			return e
		}
	}
	if e := flatError([]byte(trimmed)); e != nil {
		return e
	}
	return &Error{Message: record.Truncate(strings.Join(strings.Fields(trimmed), " "), 200)}
}

// flatError reads an error that is not in a field "error"; nil if the document is
// not one.
func flatError(document []byte) *Error {
	var w wireError
	if json.Unmarshal(document, &w) != nil || w.Message == "" {
		return nil
	}
	if w.Type == "error" { // the type of an event
		w.Type = ""
	}
	if w.Code+w.Type == "" && len(w.Message) <= 200 {
		return nil // all of the document can be shown
	}
	return errorOf(w)
}

// connectionError is a connection that ended before its response had come,
// where core cannot see it.
type connectionError struct{ error }

func (e *connectionError) Unwrap() error       { return e.error }
func (e *connectionError) Class() record.Class { return record.ClassConnection }

// A silenceError ends a request to a service that said nothing for too long.
type silenceError struct {
	what  string
	limit time.Duration
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("openai: the service sent %s within %v", e.what, e.limit)
}

// Class is that of a timeout, which is retried.
func (e *silenceError) Class() record.Class { return record.ClassTimeout }
