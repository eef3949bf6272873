package actors

import (
	"encoding/json"

	"github.com/reprise-go/reprise/core"
)

// Role identifies the speaker of a [Message].
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one turn of a conversation with a model. Its content is Text,
// followed by Parts.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`

	// Parts are images, audio, files and further text.
	Parts []Part `json:"parts,omitempty"`

	// Reasoning is the assistant's reasoning, if the service reveals it. It is for people to read;
	// the data that must be sent back to the service is in Opaque.
	Reasoning string `json:"reasoning,omitempty"`

	// Commentary is what the model said about its work in addition to the answer,
	// if the service distinguishes the two.
	Commentary string `json:"commentary,omitempty"`

	// Citations are the sources that the assistant's text refers to.
	Citations []Citation `json:"citations,omitempty"`

	// Logprobs are the log probabilities of the text's tokens, if they were requested.
	Logprobs []Logprob `json:"logprobs,omitempty"`

	// Refusal is set if Text is the model's refusal to answer.
	Refusal bool `json:"refusal,omitempty"`

	// ToolCalls are the tool calls that the assistant requests.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`

	// ToolCallID is the ID of the call that a tool message answers. IsError is
	// set if the answer is an error.
	ToolCallID string `json:"tool_call_id,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`

	// Opaque is data that must be sent back to the service unchanged. It may be nil.
	Opaque *Opaque `json:"opaque,omitempty"`

	Extra Extra `json:"extra,omitempty"` // further fields of the message
}

// Extra contains additional fields for particular services. The key is the host of the service, or
// a domain that contains the host. Fields are sent only to hosts that match their key; fields under
// the key "" are sent to all hosts. The fields are not part of the identity of a conversation.
//
//	actors.Part{Text: manual, Extra: actors.Extra{"openrouter.ai": {"cache_control": map[string]string{"type": "ephemeral"}}}}
type Extra map[string]map[string]any

// A Citation is a source that a text refers to.
type Citation struct {
	URL    string `json:"url,omitempty"`
	Title  string `json:"title,omitempty"`
	FileID string `json:"file_id,omitempty"` // the ID of the file at the service
	Text   string `json:"text,omitempty"`    // the cited passage of the source, if known
	Begin  int    `json:"begin,omitempty"`   // where the passage that refers to the source begins in the message's text, as the service counts
	End    int    `json:"end,omitempty"`     // where that passage ends; 0 if unknown
}

// A Logprob is the logarithm of the probability of a token.
type Logprob struct {
	Token   string    `json:"token"`
	Logprob float64   `json:"logprob"`
	Top     []Logprob `json:"top,omitempty"` // the most likely tokens at that position
}

// A Part is a piece of a message's content: text, data with a MIME type, or a
// URL from which the service fetches the data. One of Text, Data and URL is
// set. In an assistant message, parts are the images and audio that the model
// produced.
type Part struct {
	Text string `json:"text,omitempty"`
	MIME string `json:"mime,omitempty"` // such as "image/png", "audio/wav", "application/pdf"
	Data []byte `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
	Name string `json:"name,omitempty"` // name of a file

	Extra Extra `json:"extra,omitempty"` // further fields of the part
}

// Image returns a part that is a picture.
func Image(mime string, data []byte) Part { return Part{MIME: mime, Data: data} }

// ImageURL returns a part for a picture that the service itself fetches.
func ImageURL(url string) Part { return Part{MIME: "image/*", URL: url} }

// File returns a part that is a file, such as a PDF document.
func File(name, mime string, data []byte) Part { return Part{Name: name, MIME: mime, Data: data} }

// Opaque is data in a service's own format that must be sent back to the service
// verbatim, such as signed or encrypted reasoning. An LLM sends the data back only to
// the service that it came from.
type Opaque struct {
	Wire string          `json:"wire"` // the API and service it came from, as identified by the LLM
	Data json.RawMessage `json:"data"`
}

// A ToolCall is a function call that a model asks for.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, unless the model made a mistake
}

// System returns a message with instructions for the model.
func System(text string) Message { return Message{Role: RoleSystem, Text: text} }

// User returns a message from the user.
func User(text string, parts ...Part) Message {
	return Message{Role: RoleUser, Text: text, Parts: parts}
}

// Assistant returns a message from the model.
func Assistant(text string) Message { return Message{Role: RoleAssistant, Text: text} }

// ToolResult returns the answer to the tool call with the given ID.
func ToolResult(callID, text string, parts ...Part) Message {
	return Message{Role: RoleTool, ToolCallID: callID, Text: text, Parts: parts}
}

// A Request is the input of an [LLM]: the conversation so far, the functions that the model may
// call, and how to answer. All fields are included in the hash of the call's whole input. The
// input's identity, by which a resumed run recognizes the call, depends on only some of the fields:
// see [Request.Identity].
//
// An agent's requests share the memory that their messages refer to. A handler may therefore change
// the elements of Messages, but not the elements of a message's Parts or ToolCalls.
type Request struct {
	Messages []Message      `json:"messages"`
	Tools    []FunctionSpec `json:"tools,omitempty"`
	Options  ModelOptions   `json:"options,omitzero"`

	digests *digests // hashes of the conversation, for the turns of one agent; nil if none are kept
}

// A Response is the output of an [LLM]: the next message of the conversation.
type Response struct {
	Message      Message    `json:"message"`
	Finish       Finish     `json:"finish,omitempty"`
	FinishReason string     `json:"finish_reason,omitempty"` // the service's own name for the reason
	ID           string     `json:"id,omitempty"`            // the ID of the answer at the service
	Model        string     `json:"model,omitempty"`         // the model that answered
	Usage        core.Usage `json:"usage,omitzero"`

	// Raw is the service's unchanged reply, if Options.Raw is set. For a stream, it is an array of
	// its events.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// Finish is the reason why a model stopped. An empty Finish means FinishToolCalls if the model asks
// for tools, FinishRefusal if Message.Refusal is set, and FinishStop otherwise.
type Finish string

// The reasons why a model stopped.
const (
	FinishStop      Finish = "stop"       // the answer is complete
	FinishLength    Finish = "length"     // the model reached a token limit: the text is cut off
	FinishToolCalls Finish = "tool_calls" // the model asks for tools
	FinishFilter    Finish = "filter"     // the service withheld the rest of the answer
	FinishRefusal   Finish = "refusal"    // the model refuses to answer
	FinishError     Finish = "error"      // the service failed partway: the text is cut off

	// FinishMalformedCall means that the model asked for a tool in a form that the service could
	// not parse. Text is what the model wrote. An agent tells the model about the problem and asks
	// again.
	FinishMalformedCall Finish = "malformed_call"
	FinishOther         Finish = "other" // see Response.FinishReason
)

// finish returns the Finish of the response; it is never empty.
func (r Response) finish() Finish {
	switch {
	case r.Finish == FinishToolCalls && len(r.Message.ToolCalls) == 0: // the model asks for no tool
		return FinishStop
	case r.Finish != "":
		return r.Finish
	case len(r.Message.ToolCalls) > 0:
		return FinishToolCalls
	case r.Message.Refusal:
		return FinishRefusal
	}
	return FinishStop
}

// A Prompt is the input of an agent that [NewAgent] made.
//
// Before contains messages that precede the history. It is not recorded with the prompt: when the
// run is resumed, the caller must pass the same messages again; otherwise, the LLM calls differ
// from their records. The Messages of the answer do not include those in Before.
type Prompt struct {
	Text    string       `json:"text"`
	Parts   []Part       `json:"parts,omitempty"`   // images and files, in addition to the text
	History []Message    `json:"history,omitempty"` // earlier messages
	Before  []Message    `json:"-"`                 // messages before History, which are not recorded
	Options ModelOptions `json:"options,omitzero"`  // take precedence over those of the agent, field by field
}

// Ask returns a prompt without history.
func Ask(text string, parts ...Part) Prompt { return Prompt{Text: text, Parts: parts} }

// An Answer is the output of an agent that [NewAgent] made.
type Answer struct {
	Text     string     `json:"text"`
	Finish   Finish     `json:"finish"`             // FinishStop, FinishRefusal or FinishOther
	Messages []Message  `json:"messages,omitempty"` // the conversation from the prompt's History on, without instructions
	Turns    int        `json:"turns"`              // number of LLM calls
	Usage    core.Usage `json:"usage,omitzero"`     // the usage of all turns and tools
}

// ToolResult returns the text, which is the only part of the answer that another
// agent's model receives.
func (a Answer) ToolResult() string { return a.Text }
