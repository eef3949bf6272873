package service

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
)

// assistant returns an agent whose model answers with the number of messages it received or, if it
// is told to, asks for approval or fails.
func assistant(asked *atomic.Int64) conversation.Agent {
	refund := decorators.Tool("refund", "", func(ctx context.Context, _ struct{}) (string, error) {
		ok, err := core.Await[bool](ctx, "refund?")
		return fmt.Sprint("refunded: ", ok), err
	})
	return actors.NewAgent("assistant", actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		asked.Add(1)
		last := req.Messages[len(req.Messages)-1]
		switch {
		case last.Role == actors.RoleUser && last.Text == "refund":
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "c", Name: "refund", Arguments: "{}"}}}}, nil
		case last.Text == "fail":
			return actors.Response{}, core.Permanent(errors.New("out of ink"))
		}
		size := 0
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				size += len(p.Data)
			}
		}
		return actors.Response{Message: actors.Assistant(fmt.Sprintf("%q is message %d, with %d bytes", last.Text, len(req.Messages), size))}, nil
	}), actors.WithTools(refund))
}

func TestConversationsAreRunsOfTheService(t *testing.T) {
	var asked atomic.Int64
	store := memstore.New()
	url, _ := served(t, Options{Store: store, Thread: "assistant"}, func(r *runner.Runner) error {
		runner.Register(r, conversation.NewProgram(r.Store(), assistant(&asked)))
		return nil
	})
	client := &streamer.Client{URL: url}
	say := func(text string) streamer.ThreadTurn {
		turn, err := client.Send(t.Context(), "ann", streamer.ThreadMessage{Text: text})
		require.NoError(t, err)
		return turn
	}
	ended := func(turn streamer.ThreadTurn) {
		end := &streamer.Client{URL: url, Run: turn.RunID, UntilEnd: true}
		for _, err := range end.Events(t.Context()) {
			require.NoError(t, err)
		}
		if turn.Turn == 1 {
			return // the next turn may begin right after the answer
		}
		for { // the end is stored a moment later
			turns, err := client.Thread(t.Context(), "ann")
			require.NoError(t, err)
			if s := turns[len(turns)-1].Status; s == "completed" || s == "failed" || s == "cancelled" {
				return
			}
		}
	}
	ended(say("hello"))
	ended(say("fail")) // a failed turn leaves nothing in the history
	second := say("refund")
	until(t, url, second.RunID, "run_paused")
	for paused := false; !paused; { // the status is stored a moment later
		turns, err := client.Thread(t.Context(), "ann")
		require.NoError(t, err)
		require.Len(t, turns, 3, "the history can be read while a turn is pending")
		paused = turns[2].Status == "paused"
	}
	_, err := client.Send(t.Context(), "ann", streamer.ThreadMessage{Text: "meanwhile"})
	require.ErrorIs(t, err, streamer.ErrConflict)
	assert.ErrorContains(t, err, "the last turn has not ended: run ann-0003 is paused; answer its questions or cancel it")
	require.NoError(t, client.Answer(t.Context(), second.RunID, "assistant/refund?1", "", true))
	ended(second)

	gone := say("refund")
	until(t, url, gone.RunID, "run_paused")
	require.NoError(t, client.Cancel(t.Context(), gone.RunID, streamer.Stop{By: "ann"}))
	ended(say("again"))
	again, err := client.Send(t.Context(), "ann", streamer.ThreadMessage{Text: "again", Turn: 5})
	require.NoError(t, err)
	assert.Equal(t, "ann-0005", again.RunID)
	turns, err := client.Thread(t.Context(), "ann")
	require.NoError(t, err)
	var lines []string
	for _, turn := range turns {
		lines = append(lines, strings.Join([]string{turn.Status, turn.Text, turn.Answer, turn.Error}, "|"))
	}
	assert.Equal(t, `completed|hello|"hello" is message 1, with 0 bytes|`, lines[0])
	assert.Contains(t, lines[1], "failed|fail||")
	assert.Contains(t, lines[1], "out of ink")
	assert.Equal(t, `completed|refund|"refunded: true" is message 5, with 0 bytes|`, lines[2])
	assert.Contains(t, lines[3], "cancelled|refund||")
	assert.Equal(t, `completed|again|"again" is message 7, with 0 bytes|`, lines[4])
	assert.Len(t, lines, 5)

	// The same conversation, used outside the service.
	chat, err := conversation.Open(t.Context(), store, "ann", assistant(&asked))
	require.NoError(t, err)
	assert.Equal(t, 5, chat.Turns())
	answer, err := chat.Ask(t.Context(), "outside")
	require.NoError(t, err)
	assert.Equal(t, `"outside" is message 9, with 0 bytes`, answer.Text)
	ended(say("inside"))
	turns, err = client.Thread(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, `"inside" is message 11, with 0 bytes`, turns[len(turns)-1].Answer)
}

func TestMessagesThatAThreadCannotTakeAreRefused(t *testing.T) {
	var asked atomic.Int64
	url, _ := served(t, Options{}, func(r *runner.Runner) error {
		runner.Register(r, conversation.NewProgram(r.Store(), assistant(&asked)))
		runner.Register(r, actors.NewAgent("bare", actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
			return actors.Response{}, nil
		})))
		return register(r)
	})
	for _, c := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"ann", `{"text":"hi"}`, 400, "; want one of [assistant]"},
		{"ann", `{}`, 400, "text is needed"},
		{"ann", `{"text":"hi","program":"nobody"}`, 404, `there is no program \"nobody\"; want one of [assistant]`},
		{"ann", `{"text":"hi","program":"assistant","turn":7}`, 400, "there is no such turn: 7; the next is 1"},
		{"ann", `{"text":"hi","program":"assistant","turn":-1}`, 400, "there is no such turn"},
		{"ann", `{"text":"hi","program":"assistant","parts":[{"mime":7}]}`, 400, "parts: mime: got a number, want a string; want such as"},
		{"ann", `{"text":"hi","program":"assistant","parts":[{"url":"artifact:x"}]}`, 400, "part 1 has the URL"},
		{"..%2fann", `{"text":"hi","program":"assistant"}`, 400, "not allowed"},
		{strings.Repeat("a", 200), `{"text":"hi","program":"assistant"}`, 400, "bytes"},
		{"ann", `{"text":"hi","program":"echo"}`, 400, `program \"echo\" is not a conversation; want one of [assistant]`},
		{"ann", `{"text":"hi","program":"bare"}`, 400, "not a conversation"}, // the program takes no history
	} {
		status, body := do(t, http.MethodPost, url+"api/threads/"+c.path, c.body)
		assert.Equal(t, c.status, status, "%s: %s", c.body, body)
		assert.Contains(t, body, c.text)
	}
	for path, want := range map[string]int{"nobody": 404, "..%2fann": 404, "ann?limit=0": 400} {
		status, body := do(t, http.MethodGet, url+"api/threads/"+path, "")
		assert.Equal(t, want, status, body)
	}
}

func TestPictureOfAThreadReachesTheModelInLaterTurns(t *testing.T) {
	var asked atomic.Int64
	url, _ := served(t, Options{Thread: "assistant"}, func(r *runner.Runner) error {
		runner.Register(r, conversation.NewProgram(r.Store(), assistant(&asked)))
		return nil
	})
	picture := base64.StdEncoding.EncodeToString(make([]byte, 300_000))
	for n, body := range []string{`{"text":"look","parts":[{"mime":"image/png","data":"` + picture + `"}]}`, `{"text":"again"}`} {
		status, said := do(t, http.MethodPost, url+"api/threads/ann", body)
		require.Equal(t, 201, status, said)
		until(t, url, fmt.Sprintf("ann-000%d", n+1), "run_completed")
	}
	for said := ""; !strings.Contains(said, `\"again\" is message 3, with 300000 bytes`); {
		require.NoError(t, t.Context().Err())
		_, said = do(t, http.MethodGet, url+"api/threads/ann", "")
	}
}

// A message whose response was lost is sent again after other messages or a new default have
// changed the program that answers.
func TestMessageIsSentAgainAfterTheProgramChanged(t *testing.T) {
	register := func(r *runner.Runner) error {
		for _, name := range []string{"sales", "support"} {
			runner.Register(r, conversation.NewProgram(r.Store(), actors.NewAgent(name, actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
				return actors.Response{Message: actors.Assistant(name)}, nil
			}))))
		}
		return nil
	}
	store := memstore.New()
	url, stop := served(t, Options{Store: store, Thread: "sales"}, register)
	send := func(number int, program string) streamer.ThreadTurn {
		turn, err := (&streamer.Client{URL: url}).Send(t.Context(), "ann", streamer.ThreadMessage{Text: fmt.Sprint(number), Turn: number, Program: program})
		require.NoError(t, err)
		until(t, url, turn.RunID, "run_completed")
		return turn
	}
	send(1, "")
	send(2, "")
	send(3, "support")
	again := send(2, "")
	assert.Equal(t, "ann-0002", again.RunID)
	assert.Equal(t, "sales", again.Program)
	stop()
	url, _ = served(t, Options{Store: store, Thread: "support"}, register)
	again = send(1, "")
	assert.Equal(t, "ann-0001", again.RunID)
	assert.Equal(t, "sales", again.Program)
}
