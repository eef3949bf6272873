package actors

import "github.com/reprise-go/reprise/core"

// Role says who speaks in a [Message].
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// A Message is one turn of a conversation with a model.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`

	// ToolCalls are what an assistant asks for.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`

	// ToolCallID says which call a tool's message answers, and IsError that
	// the answer is an error.
	ToolCallID string `json:"tool_call_id,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`
}

// A ToolCall is a model's wish to have a function called.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, if the model got it right
}

// System returns a message with instructions for the model.
func System(text string) Message { return Message{Role: RoleSystem, Text: text} }

// User returns a message of the user.
func User(text string) Message { return Message{Role: RoleUser, Text: text} }

// Assistant returns a message of the model.
func Assistant(text string) Message { return Message{Role: RoleAssistant, Text: text} }

// ToolResult returns the answer to the tool call with the ID.
func ToolResult(callID, text string) Message {
	return Message{Role: RoleTool, ToolCallID: callID, Text: text}
}

// A Request is what an [LLM] is asked: the conversation so far and the
// functions that the model may call.
type Request struct {
	Messages []Message      `json:"messages"`
	Tools    []FunctionSpec `json:"tools,omitempty"`
}

// A Response is what an [LLM] answers: the next message of the conversation.
type Response struct {
	Message      Message    `json:"message"`
	FinishReason string     `json:"finish_reason,omitempty"` // as the service names it
	Model        string     `json:"model,omitempty"`         // that answered
	Usage        core.Usage `json:"usage,omitzero"`
}

// A Prompt is the input of an agent that [NewAgent] made.
type Prompt struct {
	Text    string    `json:"text"`
	History []Message `json:"history,omitempty"` // what was said before
}

// Ask returns a prompt without history.
func Ask(text string) Prompt { return Prompt{Text: text} }

// An Answer is the output of an agent that [NewAgent] made.
type Answer struct {
	Text     string     `json:"text"`
	Messages []Message  `json:"messages,omitempty"` // the conversation, from the prompt's history on; without instructions
	Turns    int        `json:"turns"`              // calls of the LLM
	Usage    core.Usage `json:"usage,omitzero"`     // of all turns
}

// ToolResult is the text: all that another agent's model gets to see of an
// agent that it called.
func (a Answer) ToolResult() string { return a.Text }
