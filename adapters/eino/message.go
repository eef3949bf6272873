package eino

import (
	"encoding/json"
	"fmt"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// requestOf returns the request in the form that is recorded. This form is used to compare calls and
// to show them to people. The model itself gets the request that the graph made.
func requestOf(input []*schema.Message, tools []*schema.ToolInfo, opts []model.Option) (req actors.Request, err error) {
	req.Messages = make([]actors.Message, len(input))
	for i, m := range input {
		if m == nil {
			return req, fmt.Errorf("eino: message %d is nil", i+1)
		}
		if req.Messages[i], err = messageOf(m); err != nil {
			return req, fmt.Errorf("eino: message %d: %w", i+1, err)
		}
	}
	o := model.GetCommonOptions(&model.Options{Tools: tools}, opts...)
	req.Options = actors.ModelOptions{Model: value(o.Model), MaxTokens: value(o.MaxTokens), Stop: o.Stop, Temperature: float(o.Temperature), TopP: float(o.TopP)}
	if o.ToolChoice != nil {
		req.Options.ToolChoice = string(*o.ToolChoice)
	}
	for _, info := range o.Tools {
		if info == nil {
			return req, fmt.Errorf("eino: the ToolInfo of a tool is nil")
		}
		spec, err := functionOf(info)
		if err != nil {
			return req, err
		}
		req.Tools = append(req.Tools, spec)
	}
	return req, nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func float(p *float32) *float64 {
	if p == nil {
		return nil
	}
	return new(float64(*p))
}

func functionOf(info *schema.ToolInfo) (actors.FunctionSpec, error) {
	spec := actors.FunctionSpec{Name: info.Name, Description: info.Desc}
	if info.ParamsOneOf == nil {
		return spec, nil
	}
	parameters, err := info.ToJSONSchema()
	if err == nil {
		spec.Parameters, err = json.Marshal(parameters)
	}
	if err != nil {
		return spec, fmt.Errorf("eino: tool %q: parameters: %w", info.Name, err)
	}
	return spec, nil
}

// jsonMIME is the MIME type of a part that contains a whole message. Such a part is used if the
// message contains more than text.
const jsonMIME = "application/vnd.eino.message+json"

func messageOf(m *schema.Message) (actors.Message, error) {
	msg := actors.Message{
		Role: actors.Role(m.Role), Text: m.Content, Reasoning: m.ReasoningContent, ToolCalls: toolCallsOf(m), ToolCallID: m.ToolCallID,
	}
	if len(m.MultiContent)+len(m.UserInputMultiContent)+len(m.AssistantGenMultiContent) > 0 || m.Name != "" {
		document, err := json.Marshal(m)
		if err != nil {
			return msg, err
		}
		msg.Parts = []actors.Part{{MIME: jsonMIME, Data: document}}
	}
	return msg, nil
}

func toolCallsOf(m *schema.Message) (calls []actors.ToolCall) {
	for _, c := range m.ToolCalls {
		calls = append(calls, actors.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return calls
}

// responseOf returns the response in the form that is recorded. Its Raw field contains the message.
func responseOf(m *schema.Message) (resp actors.Response, err error) {
	if m == nil {
		return resp, core.Retryable(fmt.Errorf("eino: the model returned no message"))
	}
	if resp.Raw, err = json.Marshal(m); err != nil {
		return resp, core.Permanent(fmt.Errorf("eino: the model's answer cannot be recorded: %w", err))
	}
	resp.Message = actors.Message{Role: actors.RoleAssistant, Text: m.Content, Reasoning: m.ReasoningContent, ToolCalls: toolCallsOf(m)}
	meta := m.ResponseMeta
	if meta == nil {
		return resp, nil
	}
	resp.FinishReason = meta.FinishReason
	if u := meta.Usage; u != nil {
		resp.Usage = core.Usage{
			InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, CachedInputTokens: u.PromptTokenDetails.CachedTokens,
			ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
		}
	}
	return resp, nil
}
