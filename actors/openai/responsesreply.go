package openai

import (
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/core/live"
)

type responsesReply struct {
	ID         lenientText       `json:"id"`
	Model      lenientText       `json:"model"`
	Status     lenientText       `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Usage      *responsesUsage   `json:"usage"`
	Error      json.RawMessage   `json:"error"`
	Incomplete *struct {
		Reason lenientText `json:"reason"`
	} `json:"incomplete_details"`
}

type responsesUsage struct {
	Input         lenientCount `json:"input_tokens"`
	Output        lenientCount `json:"output_tokens"`
	InputDetails  *usageTail   `json:"input_tokens_details"`
	OutputDetails *usageTail   `json:"output_tokens_details"`
	Cost          lenientCost  `json:"cost"`
}

type outputItem struct {
	Type    string `json:"type"`
	Phase   string `json:"phase"`
	Content []struct {
		Type        string                    `json:"type"`
		Text        string                    `json:"text"`
		Refusal     string                    `json:"refusal"`
		Annotations lenient[[]wireAnnotation] `json:"annotations"`
		Logprobs    lenient[[]wireLogprob]    `json:"logprobs"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	CallID           lenientText      `json:"call_id"`
	Name             lenientText      `json:"name"`
	Arguments        lenientArguments `json:"arguments"`
	Input            lenientArguments `json:"input"` // for custom tools
	EncryptedContent string           `json:"encrypted_content"`
	Result           lenientText      `json:"result"` // for generated images
}

// commentary is the phase of text in which a model describes its work.
const commentary = "commentary"

// read processes a complete response.
func (w responsesWire) read(a *answer, data []byte) (complete bool, err error) {
	var reply responsesReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return false, malformed(err)
	}
	return w.addReply(a, &reply)
}

func (w responsesWire) addReply(a *answer, reply *responsesReply) (complete bool, err error) {
	a.id, a.model = string(reply.ID), string(reply.Model)
	if u := reply.Usage; u != nil {
		a.usage = (&usage{Input: u.Input, Output: u.Output, InputDetails: u.InputDetails, OutputDetails: u.OutputDetails, Cost: u.Cost}).core()
	}
	if err := errorIn(reply.Error); err != nil {
		return false, err
	}
	switch reply.Status {
	case "completed", "":
		a.finish = "completed"
	case "incomplete":
		a.finish = "incomplete"
		if reply.Incomplete != nil && reply.Incomplete.Reason != "" {
			a.finish = string(reply.Incomplete.Reason)
		}
	case "queued", "in_progress":
		if a.id == "" {
			return false, &Error{Message: fmt.Sprintf("the response has the status %q and no ID", reply.Status)}
		}
		return false, &pendingError{a.id, string(reply.Status)}
	default:
		return false, &Error{Message: fmt.Sprintf("the response has the status %q", reply.Status)}
	}
	for _, raw := range reply.Output {
		var item outputItem
		if err := json.Unmarshal(raw, &item); err != nil {
			return false, malformed(err)
		}
		a.addItem(&item, raw)
	}
	if len(reply.Output) == 0 && reply.Status != "incomplete" {
		return false, errNoChoices
	}
	return true, nil
}

// addItem adds the content of an output item and keeps the raw item.
func (a *answer) addItem(item *outputItem, raw json.RawMessage) {
	if raw != nil {
		a.items = append(a.items, raw)
	}
	switch item.Type {
	default:
		a.needsItems = true
	case "image_generation_call":
		a.needsItems = true
		a.addImage(string(item.Result))
	case "message":
		a.needsItems = a.needsItems || item.Phase != ""
		text := &a.text
		if item.Phase == commentary {
			text = &a.commentary
		}
		for _, part := range item.Content {
			text.WriteString(part.Text)
			a.refusal.WriteString(part.Refusal)
			a.addAnnotations(part.Annotations.value)
			a.addLogprobs(part.Logprobs.value)
		}
	case "reasoning":
		a.needsItems = a.needsItems || item.EncryptedContent != ""
		for _, part := range item.Summary {
			a.reasoning.WriteString(part.Text)
		}
		for _, part := range item.Content {
			a.reasoning.WriteString(part.Text)
		}
	case "function_call", "custom_tool_call":
		a.needsItems = a.needsItems || item.Type == "custom_tool_call"
		call := &callParts{id: string(item.CallID), name: string(item.Name)}
		call.arguments.WriteString(string(item.Arguments) + string(item.Input))
		a.calls = append(a.calls, call)
	}
}

type responsesEvent struct {
	Type        string           `json:"type"`
	Delta       lenientArguments `json:"delta"`
	OutputIndex lenientInt       `json:"output_index"`
	Item        json.RawMessage  `json:"item"`
	Response    json.RawMessage  `json:"response"`
	Error       json.RawMessage  `json:"error"`
	Code        lenientText      `json:"code"`
	Message     lenientText      `json:"message"`
	Param       lenientText      `json:"param"`
}

// event processes one event of a stream. Deltas are emitted but not collected; the answer is taken
// from the last event, which contains all of it.
func (w responsesWire) event(a *answer, data []byte) (complete bool, err error) {
	if isDone(data) {
		return a.finish != "", errDone
	}
	var e responsesEvent
	if err := readJSON(data, &e); err != nil {
		return false, malformed(err)
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		part := live.PartText
		if a.commentaryItems[int(e.OutputIndex)] {
			part = live.PartReasoning
		}
		a.emitDelta(part, 0, string(e.Delta))
		a.streamedBytes += len(e.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.emitDelta(live.PartReasoning, 0, string(e.Delta))
		a.streamedBytes += len(e.Delta)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		a.emitDelta(live.PartToolCall, int(e.OutputIndex), string(e.Delta))
		a.streamedBytes += len(e.Delta)
	case "response.output_item.added":
		var item outputItem
		switch err := json.Unmarshal(e.Item, &item); {
		case err != nil:
		case item.Phase == commentary:
			if a.commentaryItems == nil {
				a.commentaryItems = make(map[int]bool)
			}
			a.commentaryItems[int(e.OutputIndex)] = true
		case item.Type == "function_call", item.Type == "custom_tool_call":
			a.emitPiece(live.Delta{Part: live.PartToolCall, Index: int(e.OutputIndex), Name: string(item.Name), ID: string(item.CallID)})
		}
	case "response.output_item.done":
		a.doneItems = append(a.doneItems, e.Item)
	case "response.completed", "response.incomplete", "response.failed":
		return w.finalEvent(a, e.Response)
	default:
		err := errorIn(e.Error)
		if err == nil && (e.Type == "error" || e.Code != "" && e.Message != "") {
			err = errorOf(wireError{Code: e.Code, Message: e.Message, Param: e.Param})
		}
		return false, err
	}
	return false, nil
}

// finalEvent processes the response at the end of a stream. If that response contains no output,
// the items sent earlier in the stream are used.
func (w responsesWire) finalEvent(a *answer, data []byte) (complete bool, err error) {
	var reply responsesReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return false, malformed(err)
	}
	if len(reply.Output) == 0 {
		reply.Output = a.doneItems
	}
	complete, err = w.addReply(a, &reply)
	if complete {
		err = errDone
	}
	return complete, err
}
