package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"converse": converse, "die at the end": dieAtTheEnd})
}

const turns = 50

// converse continues the pending turn and then begins the next one, in which the tool kills the
// process.
func converse(args ...string) error {
	ctx := context.Background()
	store, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	asking := false
	look := decorators.Tool("look", "", func(context.Context, nothing) (string, error) {
		if !asking {
			return "seen", nil
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return "", err
		}
		_ = self.Kill()
		select {} // wait for the kill
	})
	agent := actors.NewAgent("assistant", openai.New("m"), actors.WithTools(look))
	chat, err := conversation.Open(ctx, store, "chat", agent, conversation.WithMaxMessages(40))
	if err != nil {
		return err
	}
	if _, pending := chat.Pending(); pending {
		if _, err := chat.Continue(ctx); err != nil {
			return err
		}
	}
	if chat.Turns() == turns {
		return nil
	}
	asking = true
	_, err = chat.Ask(ctx, fmt.Sprint("question ", chat.Turns()+1))
	return errors.Join(err, errors.New("the tool did not kill the process"))
}

// A conversation of 50 turns is killed and resumed in every one of them.
func TestTheModelIsAskedForEachTurnOnce(t *testing.T) {
	server := openaitest.New(t, openaitest.Forever(openaitest.Respond(func(r openaitest.Request) openaitest.Step {
		if r.LastMessage().Role == "tool" {
			return openaitest.Text("You have seen.")
		}
		return openaitest.ToolCalls(openaitest.Call("look", nil))
	})))
	dir := t.TempDir()
	for turn := 1; turn <= turns+1; turn++ {
		cmd := process.Command(t, "converse", dir)
		cmd.Env = append(cmd.Env, "OPENAI_API_KEY=test", "OPENAI_BASE_URL="+server.URL())
		out, err := cmd.CombinedOutput()
		if turn == turns+1 {
			require.NoError(t, err, "%s", out)
			break
		}
		require.True(t, process.Killed(err))
		require.Empty(t, string(out))
	}

	asked := make(map[string]int)
	for _, r := range server.Requests() {
		last := ""
		for _, m := range r.Messages {
			if m.Role == "user" {
				last = m.Content
			}
		}
		asked[last+" "+r.LastMessage().Role]++
		assert.LessOrEqual(t, len(r.Messages), 40+3)
	}
	assert.Len(t, asked, 2*turns)
	for what, times := range asked {
		assert.Equal(t, 1, times, what)
		assert.True(t, strings.HasPrefix(what, "question "))
	}
}
