package printer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/state"
)

// delta returns a delta with a part of the output of fetch_data.
func delta(t testing.TB, attempt int, part live.Part, text string) live.Delta {
	t.Helper()
	return live.Delta{RunID: "r1", Address: address(t, "fetch_data"), Attempt: attempt, Part: part, Text: text}
}

// texts returns the lines below the live line of fetch_data.
func (e *emulator) texts() []string { return strings.Split(e.shown(), "\n")[1:] }

func TestTextIsShownBelowItsCallWhileItArrives(t *testing.T) {
	e := newEmulator(t, 30, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		show := func(attempt int, part live.Part, text string) []string {
			p.PublishDelta(delta(t, attempt, part, text))
			pass(sec)
			return e.texts()
		}
		show(0, live.PartBegin, "")
		publish(p, now(tool(t, record.StatusStarted, 0))...) // after the first delta, as on a bus
		assert.Equal(t, []string{"  Let me see"}, show(0, live.PartReasoning, "Let me see"))
		assert.Equal(t, []string{"  It is"}, show(0, live.PartText, "It is"))
		assert.Equal(t, []string{"  It is warm in Oslo, with a", "  light breeze", "  and \\x1b[2J no rain."},
			show(0, live.PartText, " warm in Oslo, with a light breeze\nand \x1b[2J no rain."))
		assert.Equal(t, []string{"  light breeze", "  and \\x1b[2J no rain. And", "  tomorrow will be like that."},
			show(0, live.PartText, " And tomorrow will be like that."), "the last three lines")

		publish(p, now(failing(t, 0, 10*sec)...)...)
		pass(sec)
		assert.Empty(t, e.texts(), "the attempt has ended")
		assert.Empty(t, show(0, live.PartEnd, ""))
		publish(p, now(tool(t, record.StatusStarted, 1))...)
		assert.Equal(t, []string{"  It"}, show(1, live.PartText, "It"))
		assert.Equal(t, []string{"  It"}, show(0, live.PartText, "late"), "the output of an abandoned attempt")
		publish(p, now(completed(t, 1, 3*sec))...)
		pass(sec)
		assert.Equal(t, "🔧 fetch_data [STARTED]\n✔ fetch_data [COMPLETED after\n2 attempts] (3.0s total)\n  ↻ Recovered after 1 retry", e.shown())
		require.NoError(t, p.Close())
		e.atRest(t)
	})
}

func TestToolCallsAndProgressHaveTheirNames(t *testing.T) {
	e := newEmulator(t, 60, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		publish(p, now(tool(t, record.StatusStarted, 0))...)
		show := func(d live.Delta) []string {
			p.PublishDelta(d)
			pass(sec)
			return e.texts()
		}
		d := delta(t, 0, live.PartToolCall, `{"city":`)
		d.Name = "get_weather"
		assert.Equal(t, []string{`  get_weather {"city":`}, show(d))
		assert.Equal(t, []string{`  get_weather {"city":"Oslo"}`}, show(delta(t, 0, live.PartToolCall, `"Oslo"}`)))
		d.Index, d.Name, d.Text = 1, "now", "{}"
		assert.Equal(t, []string{`  now {}`}, show(d), "the next tool call")
		d = delta(t, 0, live.PartProgress, "3 of 9")
		d.Name = "pages"
		assert.Equal(t, []string{"  pages 3 of 9"}, show(d))
		d.Text = "4 of 9"
		assert.Equal(t, []string{"  pages 4 of 9"}, show(d), "progress replaces earlier progress")
		require.NoError(t, p.Close())
		p.PublishDelta(d)
		e.atRest(t)
	})
}

func TestTextsTakeTheRowsThatCallsLeave(t *testing.T) {
	for rows, want := range map[int]int{24: 7 + 9, 12: 8, 9: 6} { // two thirds of the window
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			e := newEmulator(t, 80, rows)
			synctest.Test(t, func(t *testing.T) {
				p := e.printer(printer.WithASCII())
				for i := range 7 {
					r := tool(t, record.StatusStarted, 0)
					r.Address = address(t, fmt.Sprintf("fetch_data#%d", i+2))
					publish(p, now(r)...)
					d := delta(t, 0, live.PartText, strings.Repeat("many words ", 1000))
					d.Address = r.Address
					p.PublishDelta(d)
				}
				pass(sec)
				assert.Equal(t, want, strings.Count(e.shown(), "\n")+1, e.shown())
				assert.Equal(t, min(7, want-1+min(1, want/7)), strings.Count(e.shown(), "fetch_data"), "calls come before texts")
				require.NoError(t, p.Close())
			})
		})
	}
}

func TestTextsOfCallsThatAreNotPublishedAreBounded(t *testing.T) {
	e := newEmulator(t, 80, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		for i := range 5000 {
			p.PublishDelta(live.Delta{RunID: fmt.Sprint(i), Address: address(t, "x"), Part: live.PartProgress, Text: "x"})
		}
		pass(sec)
		assert.Empty(t, e.shown())
	})
	var out strings.Builder
	p := printer.New(&out)
	p.Publish(tool(t, record.StatusStarted, 0))
	p.PublishDelta(delta(t, 0, live.PartText, "hello"))
	assert.NotContains(t, out.String(), "hello", "there are no live lines")
}

func TestAnswerOfAModelIsShownWhileItArrives(t *testing.T) {
	e := newEmulator(t, 80, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer(printer.WithASCII())
		llm := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
			for _, word := range strings.SplitAfter("The token is tok_123. "+strings.Repeat("All is well in Oslo. ", 10), " ") {
				live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
				time.Sleep(sec / 20) //nolint:forbidigo // on the clock of a synctest bubble
			}
			return actors.Response{}, nil
		})
		agent := decorators.Agent("assistant", "", func(ctx context.Context, _ struct{}) (string, error) {
			_, err := llm.Call(ctx, actors.Request{Messages: []actors.Message{{Role: actors.RoleUser, Text: "?"}}})
			return "", err
		})
		hide, err := redact.New("tok_[0-9]{3}")
		require.NoError(t, err)
		st := state.New(state.WithPublisher(p), state.WithRunID("r1"), state.WithRedaction(hide.Text))
		ctx := live.Watch(st.Context(t.Context()), live.Redact(hide, p.PublishDelta))
		done := make(chan error, 1)
		go func() {
			_, err := agent.Call(ctx, struct{}{})
			done <- err
		}()
		pass(sec + sec/2)
		lines := strings.Split(e.shown(), "\n")
		require.Len(t, lines, 5, e.shown())
		assert.Regexp(t, "^# run r1 \\[STARTED\\]\n@ assistant . 1.[45]s\n`- > model . 1.[45]s$", strings.Join(lines[:3], "\n"))
		assert.Equal(t, "     The token is (redacted). All is well in Oslo. All is well in Oslo. All is", lines[3])
		assert.Regexp(t, "^     well in Oslo\\. All is well in Oslo\\. All is well in Oslo\\. All( is)?$", lines[4], "the whole text, and no word is held back")
		pass(10 * sec)
		require.NoError(t, <-done)
		require.NoError(t, st.Close())
		assert.NotContains(t, e.shown(), "The token", "the live lines have disappeared")
		e.atRest(t)
	})
}

func FuzzDelta(f *testing.F) {
	f.Add("hello\nyou", "\x1b[2J", 7)
	f.Add("日本語🔧e\u0301👩‍💻\r\n\n", "n", 2)
	f.Fuzz(func(t *testing.T, text, name string, columns int) {
		columns = min(max(columns, 1), 200)
		var out frames
		synctest.Test(t, func(t *testing.T) {
			p := printer.New(&out, printer.WithTerminal(func() (int, int) { return columns, 24 }))
			publish(p, now(tool(t, record.StatusStarted, 0))...)
			for i := range 3 {
				d := delta(t, 0, live.PartToolCall, text[:len(text)*(i+1)/3])
				d.Name = name
				p.PublishDelta(d)
				pass(sec / 5)
			}
			require.NoError(t, p.Close())
		})
		for _, frame := range out.all {
			drawn, _, _ := strings.Cut(frame, "\x1b[?7h")
			require.LessOrEqual(t, strings.Count(drawn, "\r\n"), 4)
			checkDrawn(t, withoutSequences(drawn))
		}
	})
}

// checkDrawn checks that the screen shows no control characters.
func checkDrawn(t *testing.T, drawn string) {
	t.Helper()
	for _, c := range drawn {
		if c < ' ' && c != '\r' && c != '\n' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			t.Fatalf("%q in %q", c, drawn)
		}
	}
}
