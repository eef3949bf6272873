package window

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// shorten truncates a text to the given number of tokens, and appends a note that says how much was
// left out. The note ends with how.
func shorten(text string, tokens int, how string) string {
	if tokensOf(text) <= tokens {
		return text
	}
	at := runeBoundary(text, tokens*bytesPerToken)
	return fmt.Sprintf("%s\n[%d of %d bytes were left out%s]", text[:at], len(text)-at, len(text), how)
}

// runeBoundary returns the last rune boundary at or before the given byte offset.
func runeBoundary(text string, at int) int {
	if at >= len(text) {
		return len(text)
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// splitParts returns the whole text of a message, which may consist of several parts, and the parts
// that are not text.
func splitParts(m *actors.Message) (text string, media []actors.Part) {
	text = m.Text
	for _, p := range m.Parts {
		if text != "" && p.Text != "" {
			text += "\n"
		}
		text += p.Text
		if p.Text = ""; p.MIME != "" || len(p.Data) > 0 || p.URL != "" {
			media = append(media, p)
		}
	}
	return text, media
}

// fingerprint returns a hash that identifies a conversation. Since it is computed for each request,
// it covers only roles, lengths and the beginnings of texts. It leaves out what does not belong to
// the identity of a request: system messages and the texts of tool results.
func fingerprint(messages []actors.Message) uint64 {
	if countOthers(messages) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, m := range messages {
		switch m.Role {
		case actors.RoleSystem:
			continue
		case actors.RoleTool:
			m.Text, m.Parts = "", nil
		}
		text, media := splitParts(&m)
		_, _ = fmt.Fprintf(h, "%s %d %d %d %q %q\n", m.Role, len(text), len(media), len(m.ToolCalls), m.ToolCallID, beginning(text))
		for _, c := range m.ToolCalls {
			_, _ = fmt.Fprintf(h, "%q %d %q\n", c.Name, len(c.Arguments), beginning(c.Arguments))
		}
	}
	return h.Sum64()
}

func beginning(text string) string { return text[:runeBoundary(text, 64)] }

// truncateResults returns the messages of a request with truncated tool results, starting with message
// from. If stores is set, it stores the complete results as values of the run.
func (w *window) truncateResults(ctx context.Context, req *actors.Request, from int, stores bool) ([]actors.Message, error) {
	most := w.o.Result
	if most == 0 {
		most = w.o.Tokens / 8
	}
	var cut []actors.Message
	for i := range req.Messages {
		if i < from || req.Messages[i].Role != actors.RoleTool {
			continue
		}
		text, media := splitParts(&req.Messages[i])
		if tokensOf(text) <= most {
			continue
		}
		if cut == nil {
			cut = append(cut, req.Messages...)
		}
		how, id := "", resultID(text)
		if key := resultKey(ctx, id); key != "" && hasReadTool(req.Tools) {
			if stores {
				if err := store(ctx, key, text); err != nil {
					return nil, err
				}
			}
			how = fmt.Sprintf("; call %s with the id %q and the offset %d to read on", readToolName, id, runeBoundary(text, most*bytesPerToken))
		}
		cut[i].Text, cut[i].Parts = shorten(text, most, how), media
	}
	if cut == nil {
		return req.Messages, nil
	}
	return cut, nil
}

// store stores a result unless it is already stored.
func store(ctx context.Context, key, text string) error {
	if _, ok, err := state.Get[string](ctx, key); err != nil || ok {
		return err
	}
	return state.Put(ctx, key, text)
}

// resultID returns the ID under which a model can read a result. It depends only on the text,
// because some services number the tool calls of each answer anew, and because a result must look
// the same in every request. It is short because the model must repeat it. It begins with a letter,
// so that no model sends it as a number.
func resultID(text string) string {
	const length = 6 // with 1000 results, the odds that two have the same ID are one in 500 million
	sum := sha256.Sum256([]byte(text))
	return "r" + hex.EncodeToString(sum[:length])
}

// resultKey returns the key under which a result is stored. A result belongs to the attempt of the
// nearest surrounding agent, whose model reads it. An agent that approves a call of the read tool
// does not count.
func resultKey(ctx context.Context, id string) string {
	agent := core.ScopeOf(ctx)
	for agent.Kind() != 0 && (agent.Kind() != record.KindAgent || agent.Name() == "approve_"+readToolName) {
		agent = agent.Parent()
	}
	return keyOf(ctx, "result", agent.Path(), id)
}

const readToolName = "read_result"

func hasReadTool(tools []actors.FunctionSpec) bool {
	return slices.ContainsFunc(tools, func(f actors.FunctionSpec) bool { return f.Name == readToolName })
}

// Read is the input of the tool read_result.
type Read struct {
	ID     string `json:"id"`
	Offset int    `json:"offset"`
	Length int    `json:"length,omitempty"`
}

// maxRead is the maximum and default number of bytes read at once.
const maxRead = 8000

const readSchema = `{"type":"object","additionalProperties":false,"required":["id","offset"],"properties":{
	"id":{"type":"string","description":"The id given at the end of the truncated result."},
	"offset":{"type":"integer","minimum":0,"description":"The byte offset to start at."},
	"length":{"type":"integer","minimum":1,"maximum":8000,"description":"The number of bytes to read. Defaults to 8000."}}}`

// ReadTool returns the tool read_result, with which a model can read more of a truncated tool
// result. Give it to agents whose model was made by [New] or calls a model made by New.
func ReadTool(opts ...actors.Option) actors.Tool[Read, string] {
	schema, err := actors.ParseSchema([]byte(readSchema))
	if err != nil {
		panic(err) // cannot happen: the schema is a constant
	}
	return actors.NewTool(readToolName, "Reads more of a truncated tool result.", schema, read, opts...)
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
		return "", core.Permanent(fmt.Errorf("there is no truncated result %q", r.ID))
	case r.Offset > len(text):
		return "", core.Permanent(fmt.Errorf("result %q has %d bytes, but the offset is %d", r.ID, len(text), r.Offset))
	}
	if r.Length == 0 {
		r.Length = maxRead
	}
	begin := runeBoundary(text, r.Offset)
	end := runeBoundary(text, begin+max(utf8.UTFMax, min(r.Length, maxRead)))
	if end < len(text) {
		return fmt.Sprintf("%s\n[%d more bytes, starting at offset %d]", text[begin:end], len(text)-end, end), nil
	}
	return text[begin:], nil
}

const summaryPrompt = "Summarize this part of a conversation between a user and an assistant. The assistant will continue with your summary in its place. " +
	"Keep every fact, name, number, decision and open question that may matter later. Answer with the summary alone."

func (w *window) summarizes() bool { return w.o.Summarizer.Name() != "" }

// longestSummary returns the maximum number of tokens of a summary. A summary that is longer than
// what it replaces is useless.
func longestSummary(dropped []actors.Message, room int, m *memory) int {
	return min(room/4, estimateAll(dropped)+tokensOf(m.Summary))
}

// summarize updates the summary to include the messages that are dropped. It stores m in a step,
// because the values of a call that fails are lost: without the step, a window whose model is
// unavailable would make the summary again in each turn of a failover.
func (w *window) summarize(ctx context.Context, dropped []actors.Message, room int, m *memory) error {
	if !w.summarizes() {
		return nil
	}
	var b strings.Builder
	if m.Summary != "" {
		fmt.Fprintf(&b, "summary of what came before: %s\n", m.Summary)
	}
	share := max(50, room/2/(len(dropped)+1))
	for i := range dropped {
		message := &dropped[i]
		text, media := splitParts(message)
		for _, c := range message.ToolCalls {
			text += fmt.Sprintf(" [calls %s %s]", c.Name, c.Arguments)
		}
		for _, p := range media {
			text += " [" + cmp.Or(p.MIME, "file") + "]"
		}
		fmt.Fprintf(&b, "%s: %s\n", message.Role, shorten(text, share, ""))
	}
	prompt := []actors.Message{actors.System(summaryPrompt), actors.User(shorten(b.String(), room, ""))}
	most := longestSummary(dropped, room, m)
	key := memoryKey(ctx)
	var err error
	m.Summary, err = core.Step(ctx, "summary", func(ctx context.Context) (string, error) {
		resp, err := w.o.Summarizer.Call(live.Divert(ctx, nil), actors.Request{Messages: prompt}) // its text is not part of the answer
		if err != nil {
			return "", err
		}
		made := *m
		made.Summary = shorten(resp.Message.Text, most, "")
		if key != "" {
			err = state.Put(ctx, key, made)
		}
		return made.Summary, err
	})
	return err
}
