package actors

// turn is what of a message makes a conversation another one.
type turn struct {
	Role       Role
	Text       string // of users and of the model
	Parts      []Part
	ToolCalls  []ToolCall
	ToolCallID string
	IsError    bool
}

// Identity implements core.Identifier: the conversation without instructions,
// the texts of tools' results, the tools and the options. A reworded
// instruction, a new tool or a field that a tool's output gains does not make
// it another request: what the model answered before is trusted then.
func (r Request) Identity() any { return turns(r.Messages) }

// Identity implements core.Identifier: the text and the history, as for a
// [Request]; not the options.
func (p Prompt) Identity() any {
	return struct {
		Text    string
		Parts   []Part
		History []turn
	}{p.Text, p.Parts, turns(p.History)}
}

func turns(messages []Message) []turn {
	var all []turn
	for _, m := range messages {
		if m.Role == RoleSystem {
			continue
		}
		t := turn{Role: m.Role, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, IsError: m.IsError}
		if m.Role != RoleTool { // else it is made of a recorded output, whose type may have gained a field
			t.Text, t.Parts = m.Text, m.Parts
		}
		all = append(all, t)
	}
	return all
}
