package actors

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func conversationOf(n int) []Message {
	messages := []Message{System("Be brief."), User("?", Image("image/png", []byte("png")))}
	for i := range n {
		id := fmt.Sprint(i)
		messages = append(messages,
			Message{Role: RoleAssistant, ToolCalls: []ToolCall{{ID: id, Name: "f", Arguments: `{"n":` + id + `}`}}},
			ToolResult(id, "result "+id))
	}
	return messages
}

// A known conversation is not encoded again, so the cost of a turn does not depend on the number of
// turns before it.
func TestAKnownConversationIsNotEncodedAgain(t *testing.T) {
	messages := conversationOf(500)
	messages[1].Extra = Extra{"": {"cache_control": true}}
	known := new(digests)
	_, err := known.of(messages)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = known.of(messages) }))
}

func TestDigestsAreThoseOfAConversationThatWasNotSeenBefore(t *testing.T) {
	messages := conversationOf(5)
	known := new(digests)
	for n := range len(messages) + 1 {
		for _, change := range []string{"", "text", "role", "call", "id"} {
			seen := append([]Message(nil), messages[:n]...)
			if n > 2 {
				switch m := &seen[n-2]; change {
				case "text":
					m.Text += "!"
				case "role":
					m.Role = RoleUser
				case "call":
					m.ToolCalls = []ToolCall{{ID: "other"}}
				case "id":
					m.ToolCallID = "other"
				}
			}
			got, err := Request{Messages: seen, digests: known}.IdentityHash()
			require.NoError(t, err)
			want, err := Request{Messages: seen}.IdentityHash()
			require.NoError(t, err)
			require.Equal(t, want, got, "%d %s", n, change)
			whole, _, err := Request{Messages: seen, digests: known}.WholeHash()
			require.NoError(t, err)
			wantWhole, _, err := Request{Messages: seen}.WholeHash()
			require.NoError(t, err)
			require.Equal(t, wantWhole, whole)
		}
	}
}

func TestTheIdentityOfARequestIsItsConversation(t *testing.T) {
	hash := func(r Request) string {
		h, err := r.IdentityHash()
		require.NoError(t, err)
		return h.String()
	}
	whole := func(r Request) string {
		h, _, err := r.WholeHash()
		require.NoError(t, err)
		return h.String()
	}
	messages := conversationOf(2)
	one := Request{Messages: messages}
	for name, other := range map[string]func(r *Request){
		"instructions": func(r *Request) { r.Messages[0].Text = "Be long." },
		"result":       func(r *Request) { r.Messages[3].Text = "another result" },
		"tools":        func(r *Request) { r.Tools = []FunctionSpec{{Name: "f"}} },
		"options":      func(r *Request) { r.Options.MaxTokens = 7 },
		"extra":        func(r *Request) { r.Messages[1].Parts[0].Extra = Extra{"": {"cache_control": true}} },
	} {
		changed := Request{Messages: conversationOf(2)}
		other(&changed)
		require.Equal(t, hash(one), hash(changed), name)
		require.NotEqual(t, whole(one), whole(changed), name)
	}
	require.NotEqual(t, hash(one), hash(Request{Messages: messages[:4]}))
	require.NotEqual(t, hash(Request{}), hash(one))
	h, err := Request{}.IdentityHash()
	require.NoError(t, err)
	require.False(t, h.IsZero())
}
