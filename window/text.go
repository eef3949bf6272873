package window

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// shorten returns the beginning of a text, of so many tokens, and says that there is
// more, and how it can be read.
func shorten(text string, tokens int, how string) string {
	if tokensOf(text) <= tokens {
		return text
	}
	at := cutAt(text, tokens*bytesPerToken)
	return fmt.Sprintf("%s\n[%d of %d bytes were left out%s]", text[:at], len(text)-at, len(text), how)
}

// cutAt is the last beginning of a character up to the byte.
func cutAt(text string, at int) int {
	if at >= len(text) {
		return len(text)
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// markOf tells conversations apart: by roles, lengths and beginnings, since it is made
// for each request.
func markOf(messages []actors.Message) uint64 {
	if len(messages) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, m := range messages {
		_, _ = fmt.Fprintf(h, "%s %d %d %d %q %q\n", m.Role, len(m.Text), len(m.Parts), len(m.ToolCalls), m.ToolCallID, m.Text[:cutAt(m.Text, 64)])
	}
	return h.Sum64()
}

// cutResults gives results of tools in part that are too large, from that message on, and keeps the whole as
// a value of the run, which is an artifact if it is large.
func (w *window) cutResults(ctx context.Context, req actors.Request, from int) ([]actors.Message, error) {
	most := w.o.Result
	if most == 0 {
		most = w.o.Tokens / 8
	}
	var cut []actors.Message
	for i, m := range req.Messages {
		if i < from || m.Role != actors.RoleTool || tokensOf(m.Text) <= most {
			continue
		}
		if cut == nil {
			cut = append(cut, req.Messages...)
		}
		how := ""
		if key := resultKey(ctx, m.ToolCallID); key != "" && hasReadTool(req.Tools) {
			if err := keep(ctx, key, m.Text); err != nil {
				return nil, err
			}
			how = fmt.Sprintf("; %s with the id %q and the offset %d reads on", readToolName, m.ToolCallID, cutAt(m.Text, most*bytesPerToken))
		}
		cut[i].Text = shorten(m.Text, most, how)
	}
	if cut == nil {
		return req.Messages, nil
	}
	return cut, nil
}

func keep(ctx context.Context, key, text string) error {
	if kept, ok, err := state.Get[string](ctx, key); err != nil || ok && kept == text {
		return err
	}
	return state.Put(ctx, key, text)
}

func resultKey(ctx context.Context, id string) string {
	key := keyOf(ctx, "result")
	if key == "" {
		return ""
	}
	return key + ":" + id
}

const readToolName = "read_result"

func hasReadTool(tools []actors.FunctionSpec) bool {
	for _, f := range tools {
		if f.Name == readToolName {
			return true
		}
	}
	return false
}

// Read is what the model asks for of a result.
type Read struct {
	ID     string `json:"id"`
	Offset int    `json:"offset"`
	Length int    `json:"length,omitempty"`
}

// mostRead is how many bytes are read at once, at most and by default.
const mostRead = 8000

const readSchema = `{"type":"object","additionalProperties":false,"required":["id","offset"],"properties":{
	"id":{"type":"string","description":"The id that the end of the result names."},
	"offset":{"type":"integer","minimum":0,"description":"The byte to begin with."},
	"length":{"type":"integer","minimum":1,"maximum":8000,"description":"How many bytes; 8000 if it is left out."}}}`

// ReadTool returns the tool read_result, with which a model reads on in a result that it
// was given in part. It is for agents whose model is a window.
func ReadTool(opts ...actors.Option) actors.Tool[Read, string] {
	schema, err := actors.ParseSchema([]byte(readSchema))
	if err != nil {
		panic(err) // it is a constant
	}
	return actors.NewTool(readToolName, "Reads more of a tool result that was given in part.", schema, read, opts...)
}

func read(ctx context.Context, r Read) (string, error) {
	key := resultKey(ctx, r.ID)
	if key == "" {
		return "", core.Permanent(core.ErrNoRun)
	}
	text, ok, err := state.Get[string](ctx, key)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", core.Permanent(fmt.Errorf("there is no result %q that was given in part", r.ID))
	case r.Offset > len(text):
		return "", core.Permanent(fmt.Errorf("the result %q has %d bytes, and the offset is %d", r.ID, len(text), r.Offset))
	}
	if r.Length == 0 {
		r.Length = mostRead
	}
	begin := cutAt(text, r.Offset)
	end := cutAt(text, begin+max(utf8.UTFMax, min(r.Length, mostRead)))
	if end < len(text) {
		return fmt.Sprintf("%s\n[%d more bytes, from the offset %d on]", text[begin:end], len(text)-end, end), nil
	}
	return text[begin:], nil
}

const summarizing = "Summarise this part of a conversation between a user and an assistant for the assistant, who will go on without it. " +
	"Keep every fact, name, number, decision and open question that may matter later. Answer with the summary alone."

// summarize replaces the summary by one of what it stands for and of the messages that
// are gone.
func (w *window) summarize(ctx context.Context, gone []actors.Message, room int, m *memory) error {
	if w.o.Summarizer.Name() == "" {
		return nil
	}
	var b strings.Builder
	if m.Summary != "" {
		fmt.Fprintf(&b, "summary of what came before: %s\n", m.Summary)
	}
	share := max(50, room/2/(len(gone)+1))
	for _, message := range gone {
		text := message.Text
		for _, c := range message.ToolCalls {
			text += fmt.Sprintf(" [calls %s %s]", c.Name, c.Arguments)
		}
		for _, p := range message.Parts {
			text += " " + p.Text
			if p.MIME != "" {
				text += "[" + p.MIME + "]"
			}
		}
		fmt.Fprintf(&b, "%s: %s\n", message.Role, shorten(text, share, ""))
	}
	resp, err := w.o.Summarizer.Call(ctx, actors.Request{Messages: []actors.Message{actors.System(summarizing), actors.User(shorten(b.String(), room, ""))}})
	if err != nil {
		return err
	}
	// One that is longer than what it replaces is of no use.
	most := min(room/4, estimateAll(gone)+tokensOf(m.Summary))
	m.Summary = shorten(resp.Message.Text, most, "")
	return nil
}
