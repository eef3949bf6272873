package window_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/window"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A service has a limited context. It counts a token for every three bytes, which is
// more than the estimate.
type service struct {
	t       *testing.T
	tokens  int
	answer  func(req actors.Request) actors.Message
	asked   []actors.Request
	refused []int // number of refusals before each answer
	inRow   int
}

func (s *service) count(req actors.Request) (n int) {
	for _, m := range req.Messages {
		n += 5 + len(m.Text)/3
		for _, c := range m.ToolCalls {
			n += 5 + len(c.Arguments)/3
		}
		for _, p := range m.Parts {
			n += 5 + len(p.Text)/3
			if p.MIME != "" {
				n += 1500
			}
		}
	}
	for _, f := range req.Tools {
		n += 20 + len(f.Parameters)/3
	}
	return n
}

func (s *service) llm() actors.LLM {
	return actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		s.check(req)
		n := s.count(req)
		if n > s.tokens*7/8 {
			s.inRow++
			return actors.Response{}, core.Permanent(fmt.Errorf("%w: %d tokens", actors.ErrContextTooLong, n))
		}
		s.asked, s.refused, s.inRow = append(s.asked, req), append(s.refused, s.inRow), 0
		return actors.Response{Message: s.answer(req), Usage: core.Usage{InputTokens: n, OutputTokens: 5}}, nil
	})
}

// check fails the test if real services would refuse the request, because it contains results
// without their calls, or calls without their results.
func (s *service) check(req actors.Request) {
	calls := make(map[string]bool)
	for _, m := range req.Messages {
		for _, c := range m.ToolCalls {
			calls[c.ID] = true
		}
		if m.Role == actors.RoleTool {
			assert.True(s.t, calls[m.ToolCallID], "a result without its call: %s", m.ToolCallID)
			delete(calls, m.ToolCallID)
		}
	}
	assert.Empty(s.t, calls, "calls without their results")
	assert.Equal(s.t, actors.RoleSystem, req.Messages[0].Role)
}

func asks(n int, name, arguments string) actors.Message {
	return actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: fmt.Sprint("c", n), Name: name, Arguments: arguments}}}
}

type page struct {
	N int `json:"n"`
}

// book returns a tool whose results contain 100 KB of text and a picture. The first result contains
// a secret.
func book() actors.Tool[page, actors.ToolOutput] {
	return decorators.Tool("book", "Reads a page.", func(_ context.Context, p page) (actors.ToolOutput, error) {
		text := fmt.Sprintf("page %d. ", p.N)
		if p.N == 1 {
			text += "The secret is xyzzy. "
		}
		return actors.ToolOutput{Text: text + strings.Repeat("word ", 20_000), Parts: []actors.Part{actors.Image("image/png", make([]byte, 30_000))}}, nil
	})
}

// reader returns a function that reads a number of pages, and then answers with what it knows about
// the first page.
func reader(pages int) func(actors.Request) actors.Message {
	return func(req actors.Request) actors.Message {
		read := 0
		for _, m := range req.Messages {
			for _, c := range m.ToolCalls {
				_, _ = fmt.Sscanf(c.ID, "c%d", &read)
			}
		}
		if read < pages {
			return asks(read+1, "book", fmt.Sprintf(`{"n":%d}`, read+1))
		}
		for _, m := range req.Messages {
			if _, after, ok := strings.Cut(m.Text, "secret is "); ok {
				return actors.Assistant("The secret is " + after[:5] + ".")
			}
		}
		return actors.Assistant("I do not know.")
	}
}

// summarizer returns a model that keeps the sentence with the secret, if there is one.
func summarizer(made *int) actors.LLM {
	return actors.NewLLM("summarizer", func(_ context.Context, req actors.Request) (actors.Response, error) {
		*made++
		text := "Pages were read."
		if _, after, ok := strings.Cut(req.Messages[1].Text, "secret is "); ok {
			text += " The secret is " + after[:5] + "."
		}
		return actors.Response{Message: actors.Assistant(text)}, nil
	})
}

// Hundreds of turns with results of 100 KB and pictures fit into a service with 32,000 tokens.
func TestConversationOutgrowsItsModel(t *testing.T) {
	for _, summarized := range []bool{false, true} {
		t.Run(fmt.Sprint("summarized ", summarized), func(t *testing.T) {
			const turns = 500
			s := &service{t: t, tokens: 32_000, answer: reader(turns)}
			o, made := window.Options{Tokens: 32_000}, 0
			if summarized {
				o.Summarizer = summarizer(&made)
			}
			agent := actors.NewAgent("assistant", window.New("any", o, s.llm()), actors.WithTools(book(), window.ReadTool()),
				actors.WithInstructions("Read."), actors.WithMaxTurns(turns+1))
			_, ctx := testkit.Run(t)
			answer, err := agent.Call(ctx, actors.Ask("What is the secret?"))
			require.NoError(t, err)
			want := "I do not know."
			if summarized {
				want = "The secret is xyzzy."
			}
			assert.Equal(t, want, answer.Text)
			assert.Equal(t, turns+1, answer.Turns)
			refusals := 0
			for _, n := range s.refused {
				assert.LessOrEqual(t, n, 1, "refused twice for the length")
				refusals += n
			}
			assert.LessOrEqual(t, refusals, 1, "refusals after the first one")
			for _, req := range s.asked[turns-3:] {
				assert.Equal(t, "What is the secret?", question(req), "the question is kept")
			}
			assert.Less(t, made, turns/2)
		})
	}
}

// What is stored grows with the results, and not with the requests.
func TestStoreGrowsLinearly(t *testing.T) {
	sizes := make(map[int]int64)
	for _, turns := range []int{10, 40} {
		dir := t.TempDir()
		store, err := filestore.New(dir)
		require.NoError(t, err)
		made := 0
		s := &service{t: t, tokens: 32_000, answer: reader(turns)}
		agent := actors.NewAgent("assistant", window.New("any", window.Options{Tokens: 32_000, Summarizer: summarizer(&made)}, s.llm()),
			actors.WithTools(book(), window.ReadTool()), actors.WithInstructions("Read."), actors.WithMaxTurns(turns+1))
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		_, err = agent.Call(st.Context(t.Context()), actors.Ask("What is the secret?"))
		require.NoError(t, err)
		require.NoError(t, st.Close())
		require.NoError(t, store.Close())
		require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			sizes[turns] += info.Size()
			return err
		}))
	}
	assert.Less(t, sizes[40], 5*sizes[10], "size of the store after four times the turns")
}

// question returns the last message from the user.
func question(req actors.Request) (text string) {
	for _, m := range req.Messages {
		if m.Role == actors.RoleUser {
			text = m.Text
		}
	}
	return text
}

// A run that is interrupted in each of its calls sends the same requests as a run that is not
// interrupted, and sends none of them twice.
func TestResumedRunSendsTheSame(t *testing.T) {
	for name, surround := range surroundings {
		turns := 12
		if name == "nothing" {
			turns = 30
		}
		t.Run(name, func(t *testing.T) { testResumedRunSendsTheSame(t, turns, surround) })
	}
}

func testResumedRunSendsTheSame(t *testing.T, turns int, surround func(actors.LLM) actors.LLM) {
	made := 0
	story := func(stops bool) ([]actors.Request, string) {
		s := &service{t: t, tokens: 8_000, answer: reader(turns)}
		made = 0
		llm := surround(window.New("any", window.Options{Tokens: 8_000, Summarizer: summarizer(&made)}, s.llm()))
		agent := actors.NewAgent("assistant", llm, actors.WithTools(book(), window.ReadTool()), actors.WithInstructions("Read."), actors.WithMaxTurns(turns+1))
		store := memstore.New()
		for range 3 * turns {
			var st *state.ExecutionState
			answered := 0
			stop := core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
				err := next(ctx)
				if answered++; stops && (call.Name == "model" || call.Name == "summarizer") && answered > 1 {
					st.Interrupt(snapshot.Stop{})
				}
				return err
			}}
			var err error
			st, err = state.Open(t.Context(), store, "run", state.WithInterceptors(stop))
			require.NoError(t, err)
			answer, err := agent.Call(st.Context(t.Context()), actors.Ask("What is the secret?"))
			require.NoError(t, st.Close())
			if err == nil {
				return s.asked, answer.Text
			}
			var diverged *core.DivergenceError
			require.False(t, errors.As(err, &diverged), "%v", err)
			require.ErrorIs(t, err, core.ErrInterrupted)
		}
		t.Fatal("the run does not end")
		return nil, ""
	}
	want, answer := story(false)
	summaries := made
	got, resumed := story(true)
	assert.Positive(t, summaries)
	assert.Equal(t, summaries, made)
	assert.Equal(t, "The secret is xyzzy.", answer)
	assert.Equal(t, answer, resumed)
	require.Len(t, got, len(want))
	for i := range want {
		assert.Equal(t, want[i], got[i], "request %d", i)
	}
}

func TestModelReadsMoreOfAResult(t *testing.T) {
	s := &service{t: t, tokens: 8_000}
	var results []string
	var id string
	s.answer = func(req actors.Request) actors.Message {
		last := req.Messages[len(req.Messages)-1]
		if last.Role != actors.RoleTool {
			return asks(1, "book", `{"n":1}`)
		}
		results = append(results, last.Text)
		switch len(results) {
		case 1:
			id = noted(last.Text)
			return asks(2, "read_result", fmt.Sprintf(`{"id":%q,"offset":4000,"length":10}`, id))
		case 2:
			return asks(3, "read_result", fmt.Sprintf(`{"id":%q,"offset":100020}`, id))
		case 3:
			return asks(4, "read_result", `{"id":"c1","offset":0}`)
		case 4:
			return asks(5, "read_result", fmt.Sprintf(`{"id":%q,"offset":1000000}`, id))
		}
		return actors.Assistant("done")
	}
	agent := actors.NewAgent("assistant", window.New("any", window.Options{Tokens: 8_000}, s.llm()), actors.WithTools(book(), window.ReadTool()), actors.WithInstructions("Read."))
	_, ctx := testkit.Run(t)
	_, err := agent.Call(ctx, actors.Ask("?"))
	require.NoError(t, err)
	require.Len(t, results, 5)
	assert.Regexp(t, `^r[0-9a-f]{12}$`, id)
	note := fmt.Sprintf("\n[96029 of 100029 bytes were left out; call read_result with the id %q and the offset 4000 to read on]", id)
	assert.Equal(t, note, results[0][4000:])
	assert.Equal(t, "ord word w\n[96019 more bytes, starting at offset 4010]", results[1])
	assert.Equal(t, "ord word ", results[2])
	assert.Contains(t, results[3], `there is no truncated result "c1"`)
	assert.Contains(t, results[4], fmt.Sprintf(`result %q has 100029 bytes, but the offset is 1000000`, id))
}

// noted returns the ID that a truncated text gives for reading the rest, or "" if it gives none.
func noted(text string) string {
	_, after, _ := strings.Cut(text, `with the id "`)
	id, _, _ := strings.Cut(after, `"`)
	return id
}

func TestConversationThatFitsIsSentUnchanged(t *testing.T) {
	s := &service{t: t, tokens: 8_000, answer: func(actors.Request) actors.Message { return actors.Assistant("yes") }}
	req := actors.Request{Messages: []actors.Message{actors.System("Be brief."), actors.User("?", actors.Image("image/png", make([]byte, 1<<20)))}}
	_, ctx := testkit.Run(t)
	llm := window.New("any", window.Options{Tokens: 8_000}, s.llm())
	for _, ctx := range []context.Context{ctx, t.Context()} {
		_, err := llm.Call(ctx, req)
		require.NoError(t, err)
	}
	assert.Equal(t, []actors.Request{req, req}, s.asked, "a picture is not counted by its bytes")
}

// The test uses real HTTP. The service reports that the conversation is too long, and then receives
// a shorter one, once.
func TestConversationRefusedForItsLengthIsSentShorter(t *testing.T) {
	long := actors.Request{Messages: []actors.Message{actors.System("Be brief.")}}
	for i := range 20 {
		long.Messages = append(long.Messages, actors.User(fmt.Sprint("question ", i)), actors.Assistant(strings.Repeat("answer ", 50)))
	}
	long.Messages = append(long.Messages, actors.User("And now?"))
	tooLong := openaitest.Failure(400, "This model's maximum context length is 1000 tokens").WithErrorCode("context_length_exceeded")
	for _, refusals := range []int{1, 2} {
		steps := []openaitest.Step{tooLong}
		if refusals == 2 {
			steps = append(steps, tooLong)
		} else {
			steps = append(steps, openaitest.Text("Fine."))
		}
		srv := openaitest.New(t, steps...)
		llm := window.New("any", window.Options{Tokens: 100_000}, openai.New("m", openai.WithBaseURL(srv.URL()), openai.WithAPIKey("key")))
		_, ctx := testkit.Run(t)
		resp, err := llm.Call(ctx, long)
		if refusals == 2 {
			require.ErrorIs(t, err, actors.ErrContextTooLong)
		} else {
			require.NoError(t, err)
			assert.Equal(t, "Fine.", resp.Message.Text)
		}
		requests := srv.Requests()
		require.Len(t, requests, 2)
		assert.Less(t, len(requests[1].Body), len(requests[0].Body)*2/3)
		assert.Contains(t, string(requests[1].Body), "And now?")
	}
}

// A summary that is longer than what it replaces is truncated.
func TestLongSummaryIsCut(t *testing.T) {
	s := &service{t: t, tokens: 2_000, answer: func(actors.Request) actors.Message { return actors.Assistant("yes") }}
	wordy := actors.NewLLM("summarizer", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant(strings.Repeat("bla ", 100_000))}, nil
	})
	req := actors.Request{Messages: []actors.Message{actors.System("Be brief.")}}
	for range 40 {
		req.Messages = append(req.Messages, actors.User(strings.Repeat("what ", 50)), actors.Assistant("this"))
	}
	req.Messages = append(req.Messages, actors.User("And now?"))
	_, ctx := testkit.Run(t)
	_, err := window.New("any", window.Options{Tokens: 2_000, Summarizer: wordy}, s.llm()).Call(ctx, req)
	require.NoError(t, err)
	sent := s.asked[0]
	assert.Contains(t, sent.Messages[1].Text, "Summary of earlier turns of the conversation:]\nbla bla")
	assert.Less(t, window.Estimate(sent.Messages[1]), 2_000/3)
	assert.Equal(t, "And now?", question(sent))
}

// A single message that is too long is truncated; instructions are not.
func TestSingleMessageThatIsTooLongIsCut(t *testing.T) {
	s := &service{t: t, tokens: 1_000, answer: func(actors.Request) actors.Message { return actors.Assistant("yes") }}
	req := actors.Request{Messages: []actors.Message{actors.System(strings.Repeat("rule ", 100)), actors.User(strings.Repeat("ä", 50_000), actors.Image("image/png", []byte{1}))}}
	_, ctx := testkit.Run(t)
	_, err := window.New("any", window.Options{Tokens: 1_000}, s.llm()).Call(ctx, req)
	require.NoError(t, err)
	sent := s.asked[0].Messages
	assert.Equal(t, req.Messages[0], sent[0])
	assert.Contains(t, sent[1].Text, "bytes were left out]")
	assert.Empty(t, sent[1].Parts)
}

func TestEstimateDependsOnTheContent(t *testing.T) {
	picture := actors.User("", actors.Image("image/png", make([]byte, 1<<20)))
	assert.Less(t, window.Estimate(picture), 2_000)
	assert.Equal(t, window.Estimate(picture), window.Estimate(actors.User("", actors.ImageURL("https://x/y.png"))))
	assert.InDelta(t, 1000, window.Estimate(actors.User(strings.Repeat("word ", 800))), 10)
	assert.Greater(t, window.Estimate(actors.User("", actors.File("a.wav", "audio/wav", make([]byte, 160_000)))), 300)
}

func TestBadOptionsPanicAndSayWhatIsAllowed(t *testing.T) {
	llm := (&service{}).llm()
	for want, f := range map[string]func(){
		`window: "any" has the zero LLM`:                                                           func() { window.New("any", window.Options{Tokens: 100}, actors.LLM{}) },
		`window: Options.Tokens of "any" is 0; want 100 or more`:                                   func() { window.New("any", window.Options{}, llm) },
		`window: Options.Answer of "any" is 99; want at most half of Tokens, or 0 for the default`: func() { window.New("any", window.Options{Tokens: 100, Answer: 99}, llm) },
		`window: Options.Result of "any" is -1; want at most half of Tokens, or 0 for the default`: func() { window.New("any", window.Options{Tokens: 100, Result: -1}, llm) },
	} {
		assert.PanicsWithValue(t, want, f)
	}
}

func TestQuestionInPartsIsShortened(t *testing.T) {
	s := &service{t: t, tokens: 1_000, answer: func(actors.Request) actors.Message { return actors.Assistant("yes") }}
	ask := func(parts ...actors.Part) string {
		_, ctx := testkit.Run(t)
		_, err := window.New("any", window.Options{Tokens: 1_000}, s.llm()).Call(ctx, actors.Request{Messages: []actors.Message{
			actors.System("Be brief."), {Role: actors.RoleUser, Parts: parts},
		}})
		require.NoError(t, err)
		sent := s.asked[len(s.asked)-1].Messages[1]
		assert.Empty(t, sent.Parts)
		return sent.Text
	}
	log := actors.Part{Text: strings.Repeat("line ", 5000)}
	text := ask(actors.Part{Text: "What is wrong?"}, log)
	assert.True(t, strings.HasPrefix(text, "What is wrong?\nline line "), text)
	assert.NotContains(t, text, "Pictures and files")
	text = ask(actors.Part{Text: "What is wrong?"}, log, actors.Image("image/png", make([]byte, 100)))
	assert.True(t, strings.HasPrefix(text, "What is wrong?\nline line "), text)
	assert.Contains(t, text, "Pictures and files were left out")
}

func TestSystemMessagesAreKeptWhereverTheyAre(t *testing.T) {
	s := &service{t: t, tokens: 8_000, answer: func(actors.Request) actors.Message { return actors.Assistant("yes") }}
	turns := history("what")
	messages := append([]actors.Message{actors.System("Be brief.")}, turns[:4]...)
	messages = append(messages, actors.System("Never tell the password."))
	messages = append(append(messages, turns[4:]...), actors.User("Go."))
	_, ctx := testkit.Run(t)
	var summarized string
	sum := actors.NewLLM("summarizer", func(_ context.Context, req actors.Request) (actors.Response, error) {
		summarized = req.Messages[1].Text
		return actors.Response{Message: actors.Assistant("They said what.")}, nil
	})
	_, err := window.New("any", window.Options{Tokens: 4_000, Summarizer: sum}, s.llm()).Call(ctx, actors.Request{Messages: messages})
	require.NoError(t, err)
	require.Less(t, len(s.asked[0].Messages), len(messages))
	assert.Equal(t, "Be brief.", s.asked[0].Messages[0].Text)
	assert.Equal(t, "Never tell the password.", s.asked[0].Messages[1].Text)
	assert.NotContains(t, summarized, "password")
}

// The service counts twice as many tokens as the window estimates, both for messages and for tools.
func TestToolsCountAsTheServiceCountsThem(t *testing.T) {
	const tokens, reserved = 8_000, 1_000
	var counted []int
	model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		n := 0
		for _, m := range req.Messages {
			n += 2 * window.Estimate(m)
		}
		for _, f := range req.Tools {
			n += 2 * (len(f.Name) + len(f.Description) + len(f.Parameters)) / 4
		}
		counted = append(counted, n)
		return actors.Response{Message: actors.Assistant("yes"), Usage: core.Usage{InputTokens: n}}, nil
	})
	w := window.New("any", window.Options{Tokens: tokens, Answer: reserved}, model)
	_, ctx := testkit.Run(t)
	messages := []actors.Message{actors.System("Be brief.")}
	tools := []actors.FunctionSpec{{Name: "f", Description: strings.Repeat("word", 2000)}}
	for range 40 {
		messages = append(messages, actors.User(strings.Repeat("word", 100)))
		_, err := w.Call(ctx, actors.Request{Messages: messages, Tools: tools})
		require.NoError(t, err)
		messages = append(messages, actors.Assistant(strings.Repeat("word", 100)))
	}
	for i, n := range counted[1:] { // the first answer shows how the service counts
		assert.LessOrEqual(t, n, tokens-reserved, "request %d", i+1)
	}
}

// A refusal of a long request does not hide that a shorter one was refused before. The request is not
// sent again if it cannot be shortened.
func TestRefusedRequestIsSentShorterOrNotAgain(t *testing.T) {
	limit := 900
	var sent []int
	model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		n := 0
		for _, m := range req.Messages {
			n += window.Estimate(m)
		}
		if sent = append(sent, n); n > limit {
			return actors.Response{}, core.Permanent(actors.ErrContextTooLong)
		}
		return actors.Response{Message: actors.Assistant("yes")}, nil
	})
	w := window.New("w", window.Options{Tokens: 100_000}, model)
	_, ctx := testkit.Run(t)
	messages := []actors.Message{actors.System("s")}
	for range 10 {
		messages = append(messages, actors.User(strings.Repeat("word", 50)), actors.Assistant(strings.Repeat("word", 50)))
	}
	messages = append(messages, actors.User("Write the file."))
	_, err := w.Call(ctx, actors.Request{Messages: messages})
	require.NoError(t, err)
	require.Len(t, sent, 2)
	assert.Less(t, sent[1], sent[0])
	sent, limit = nil, 2100
	messages = append(messages, asks(1, "write", `"`+strings.Repeat("word", 2000)+`"`), actors.ToolResult("1", strings.Repeat("word", 2000)))
	_, err = w.Call(ctx, actors.Request{Messages: messages}) // the arguments cannot be shortened
	require.ErrorIs(t, err, actors.ErrContextTooLong)
	assert.Len(t, sent, 1)
}
