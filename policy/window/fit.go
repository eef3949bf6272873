package window

import (
	"slices"

	"github.com/reprise-go/reprise/actors"
)

// A cut says how to shorten a request that does not fit. It depends on the lengths of parts, such
// as instructions and descriptions, that may change during the life of a run and do not belong to
// the identity of the model call. Therefore, the cut is recorded before that call is made.
type cut struct {
	Left int    `json:"left"` // number of messages to leave out, not counting system messages
	Mark uint64 `json:"mark"` // their fingerprint
	Room int    `json:"room"` // number of tokens available for messages
	Most int    `json:"most"` // maximum number of tokens of each message; 0 if there is none
}

// fit returns how to shorten a request. messages are the request's messages with truncated results.
// If the messages fit without those that m leaves out, the result is zero. Otherwise, turns are
// left out until half of the room is free. Making few but large cuts keeps the beginning of the
// conversation stable, so that services can cache it.
func (w *window) fit(req *actors.Request, messages []actors.Message, m memory) cut {
	room := w.room(req, m.scale())
	if m.Refused > 0 {
		room = min(room, m.Refused*2/3)
	}
	if estimateAll(compose(messages, &m)) <= room {
		return cut{}
	}
	first := position(messages, m.Left)
	at, rest := first, estimateAll(messages[first:])
	for _, next := range boundaries(messages, first) {
		rest -= estimateAll(messages[at:next])
		if at = next; rest <= room/2 {
			break
		}
	}
	summary := tokensOf(m.Summary)
	if at > first {
		m.Left += countOthers(messages[first:at])
		m.Mark = fingerprint(messages[:at])
		if w.summarizes() {
			summary = longestSummary(others(req.Messages[first:at]), room, &m)
		}
	}
	m.Summary = "" // already counted; the new summary does not exist yet
	return cut{m.Left, m.Mark, room, limit(compose(messages, &m), room, summary)}
}

// room returns how many estimated tokens are available for messages. The model counts scale tokens
// for each estimated token.
func (w *window) room(req *actors.Request, scale float64) int {
	answer := w.o.Answer
	if answer == 0 {
		answer = min(req.Options.MaxTokens, w.o.Tokens/2)
	}
	if answer == 0 {
		answer = w.o.Tokens / 8
	}
	free := float64(w.o.Tokens-answer)/scale - float64(estimateTools(req.Tools))
	return int(max(float64(w.o.Tokens)/8/scale, free))
}

// boundaries returns the positions where a conversation can be cut. A cut must not
// separate a tool result from its call.
func boundaries(messages []actors.Message, from int) (cuts []int) {
	for i := from + 1; i < len(messages); i++ {
		if messages[i].Role != actors.RoleTool && !isSystem(messages[i]) {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

const note = "[Earlier turns of the conversation were left out because they did not fit.]"

// compose returns the system messages, the note or summary that replaces the messages
// left out, the current question, and the remaining messages.
func compose(messages []actors.Message, m *memory) []actors.Message {
	if m.Left == 0 {
		return messages
	}
	at := position(messages, m.Left)
	var sent []actors.Message
	for _, m := range messages[:at] {
		if isSystem(m) {
			sent = append(sent, m)
		}
	}
	text := note
	if m.Summary != "" {
		text = "[Summary of earlier turns of the conversation:]\n" + m.Summary
	}
	sent = append(sent, actors.User(text))
	for i := at - 1; i >= 0; i-- {
		if isUser(messages[i]) && !slices.ContainsFunc(messages[at:], isUser) {
			sent = append(sent, messages[i])
			break
		}
	}
	return append(sent, messages[at:]...)
}

// content returns the estimated number of tokens of the part of a message that squeeze can shorten.
func content(m *actors.Message) int {
	if isSystem(*m) {
		return 0
	}
	return Estimate(actors.Message{Text: m.Text, Parts: m.Parts}) - perMessage
}

// limit returns the maximum for the content of each message such that all messages fit, or 0 if
// they fit without a maximum. reserved is the part of the room needed for what is not among the
// messages.
func limit(messages []actors.Message, room, reserved int) int {
	var sizes []int
	free := room - reserved - estimateAll(messages)
	for i := range messages {
		if size := content(&messages[i]); size > 0 {
			sizes = append(sizes, size)
			free += size
		}
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := free / (len(sizes) - i); size > share {
			return max(1, share, room/(len(messages)+1))
		}
		free -= size
	}
	return 0
}

// squeeze shortens each message whose content has more than the given number of tokens, unless that
// number is 0: it truncates the text, and removes pictures and files. How a message is changed
// depends only on that message, so a resumed run changes it in the same way even if other messages
// have changed.
func squeeze(messages []actors.Message, most int) []actors.Message {
	const notes = 24 // estimated tokens of the notes about what was left out
	if most == 0 {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		if content(m) <= most {
			continue
		}
		text, media := splitParts(m)
		m.Text, m.Parts = shorten(text, max(most/2, most-notes), ""), nil
		if len(media) > 0 {
			m.Text += "\n[Pictures and files were left out because they did not fit.]"
		}
	}
	return messages
}

// isMarked reports whether mark is the fingerprint of the messages that are left out.
func isMarked(messages []actors.Message, left int, mark uint64) bool {
	return left <= countOthers(messages) && fingerprint(messages[:position(messages, left)]) == mark
}

// position returns the index of the first message that remains after the given number of messages
// has been left out. System messages do not count, since they are kept wherever they are.
func position(messages []actors.Message, left int) int {
	for i := range messages {
		if isSystem(messages[i]) {
			continue
		}
		if left == 0 {
			return i
		}
		left--
	}
	return len(messages)
}

// others returns the messages other than system messages.
func others(messages []actors.Message) []actors.Message {
	return slices.DeleteFunc(slices.Clone(messages), isSystem)
}

// countOthers returns the number of messages that are not system messages. Positions are stored as
// these counts, so that they stay the same if instructions are added or removed.
func countOthers(messages []actors.Message) (n int) {
	for i := range messages {
		if !isSystem(messages[i]) {
			n++
		}
	}
	return n
}

func isSystem(m actors.Message) bool { return m.Role == actors.RoleSystem }

func isUser(m actors.Message) bool { return m.Role == actors.RoleUser }
