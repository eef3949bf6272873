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

// An Error is an error reported by the service. Neither its text nor that of the wrapped error ever
// contains the API key that was sent. errors.As finds an Error both in returned errors and in
// errors read from records. errors.Is matches [actors.ErrContextTooLong], [actors.ErrQuota],
// [actors.ErrFiltered] and [actors.ErrFormatUnsupported].
type Error struct {
	Status    int    // HTTP status, 400 or more; 0 if the error was reported in a successful reply or a stream without a status
	Type      string // such as "invalid_request_error"; may be empty
	Code      string // such as "rate_limit_exceeded"; may be empty
	Param     string // the invalid field of the request; may be empty
	Message   string // the service's message
	RequestID string // identifies the request to the service's support; may be empty

	err       error         // go-openai's error; nil in recorded errors
	delay     time.Duration // delay requested in the body; 0 if there is none
	generated string        // the model's output, if the service rejected it
}

// Error returns a message such as `openai: status 429, type requests, code
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

// Unwrap returns go-openai's error: a *goopenai.APIError, or a *goopenai.RequestError if the body
// has a different form. It returns nil for errors in a reply or a stream, and for recorded errors.
func (e *Error) Unwrap() error { return e.err }

// HTTPStatusCode returns the status. [record.Classify] uses it.
func (e *Error) HTTPStatusCode() int { return e.Status }

// Class returns the error class that Type and Code imply. If there is a status, Class returns
// [record.ClassUnknown], so that the status determines the class.
func (e *Error) Class() record.Class {
	kind := strings.ToLower(e.Type + " " + e.Code)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(kind, word) })
	}
	switch {
	case e.Status != 0:
		return record.ClassUnknown // the status determines the class
	case has("rate_limit", "too_many_requests", "resource_exhausted"):
		return record.ClassRateLimit
	case has("invalid", "not_found", "permission", "authentication", "unsupported", "context_length"):
		return record.ClassClient
	}
	return record.ClassServer // the service had already accepted the request
}

// Is reports whether target is the error that e stands for:
// [actors.ErrContextTooLong], [actors.ErrQuota], [actors.ErrFiltered] or
// [actors.ErrFormatUnsupported].
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

// rejectedOutput returns the model's output if err means that the service rejected the
// output rather than the request. The model should correct it: the same request might
// fail again and again.
func rejectedOutput(err error) (resp actors.Response, ok bool) {
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

// contextTooLong lists phrases, in lower case, that services use to report that a conversation is
// too long.
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

// markRetry marks e as permanent or retryable if its meaning or a header overrides the status. A
// transient error is retried even without a mark; the mark would also mean that the request had no
// effect.
func markRetry(e *Error, header http.Header) error {
	shouldRetry := header.Get("X-Should-Retry")
	switch {
	case shouldRetry == "false", e.meaning() != nil:
		return core.Permanent(e)
	case shouldRetry == "true" && !record.Classify(e).IsTransient():
		return core.Retryable(e)
	}
	return e
}

var (
	errNoChoices = errors.New("openai: the reply has no choices")

	// errDone reports the normal end of a stream.
	errDone = errors.New("done")

	// errTruncated reports that a stream ended too early.
	errTruncated = fmt.Errorf("openai: the stream ended before the answer was complete: %w", io.ErrUnexpectedEOF)
)

func malformed(err error) error { return fmt.Errorf("openai: malformed reply: %w", err) }

// wireError is the union of the error objects of all services.
type wireError struct {
	Message   lenientText `json:"message"`
	Type      lenientText `json:"type"`
	Code      lenientText `json:"code"`
	Param     lenientText `json:"param"`
	Generated lenientText `json:"failed_generation"` // sent by Groq
	Status    lenientText `json:"status"`            // Google's name for the type
	Details   []struct {
		RetryDelay string `json:"retryDelay"`
	} `json:"details"` // sent by Google
	Inner struct {
		Code lenientText `json:"code"`
	} `json:"innererror"` // sent by Azure
	Metadata struct {
		Raw lenientText `json:"raw"`
	} `json:"metadata"` // OpenRouter: message of the upstream service
}

// errorIn decodes the error object in a reply. It returns nil if there is none. Some
// services send an empty error object with each success.
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
		return nil // an empty error object
	}
	if err != nil && w.Message == "" {
		return &Error{Message: record.Truncate(string(raw), maxMessage)}
	}
	return errorOf(w)
}

// isZero reports whether a document contains only zero values.
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
		Message: record.Truncate(string(w.Message), maxMessage), generated: string(w.Generated),
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
	// A number is a status, not a code.
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

// errorOfBody decodes the body of a failed request. If its format is unknown, the message
// is the beginning of the body.
func errorOfBody(body []byte) *Error {
	var reply struct {
		Error   json.RawMessage `json:"error"`
		Message lenientText     `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	trimmed := strings.TrimSpace(string(body))
	var list []json.RawMessage
	if json.Unmarshal([]byte(trimmed), &list) == nil && len(list) > 0 {
		trimmed = string(list[0]) // Google sends errors in a list
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

// flatError decodes an error object that is not inside a field "error". It returns nil if the
// document is not such an object.
func flatError(document []byte) *Error {
	var w wireError
	if json.Unmarshal(document, &w) != nil || w.Message == "" {
		return nil
	}
	if w.Type == "error" { // type of the event, not of the error
		w.Type = ""
	}
	if w.Code+w.Type == "" && len(w.Message) <= 200 {
		return nil // short enough for the whole document to be shown
	}
	return errorOf(w)
}

// A connectionError marks an error as a connection failure before the response. It is for errors
// that core does not recognize as such.
type connectionError struct{ error }

func (e *connectionError) Unwrap() error       { return e.error }
func (e *connectionError) Class() record.Class { return record.ClassConnection }

// A misreadError reports a reply that cannot be read. Since the service had accepted the request,
// the call is retried only if it may be repeated.
type misreadError struct{ error }

func (e *misreadError) Unwrap() error       { return e.error }
func (e *misreadError) Class() record.Class { return record.ClassServer }

// A stallError reports that the service sent nothing for too long.
type stallError struct {
	what  string
	limit time.Duration
}

func (e *stallError) Error() string {
	return fmt.Sprintf("openai: the service sent %s within %v", e.what, e.limit)
}

// Class returns [record.ClassTimeout], which is retried.
func (e *stallError) Class() record.Class { return record.ClassTimeout }
