package browser

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// clerks makes runs that look up a customer and then ask the given question.
func clerks(t *testing.T, store *memstore.Store, runs int, question string) {
	t.Helper()
	lookUp := decorators.Tool("look_up", "finds a customer", func(_ context.Context, in City) (string, error) { return "a customer in " + in.Name, nil })
	for i := range runs {
		st, err := state.Open(t.Context(), store, fmt.Sprintf("ticket-%02d", i+1), state.WithPayloads())
		require.NoError(t, err)
		clerk := decorators.Agent("clerk", "pays", func(ctx context.Context, in City) (bool, error) {
			if _, err := lookUp.Call(ctx, in); err != nil {
				return false, err
			}
			return core.Await[bool](ctx, fmt.Sprintf(question, 10*i))
		})
		_, err = clerk.Call(st.Context(t.Context()), City{"Oslo"})
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
	}
}

// answersOf returns the number of runs with an answer that no program has read yet.
func answersOf(t *testing.T, store *memstore.Store, runs int) (n int) {
	t.Helper()
	for i := range runs {
		messages, err := store.Messages(t.Context(), fmt.Sprintf("ticket-%02d", i+1))
		require.NoError(t, err)
		for _, m := range messages {
			if m.IsAnswer() {
				n++
				assert.Equal(t, "Ada", m.Record.AnsweredBy())
			}
		}
	}
	return n
}

// TestManySimilarQuestionsAreAnsweredAtOnce answers similar questions together, leaving one out.
// Because nobody has signed in, the page asks for a name, and the answers carry it.
func TestManySimilarQuestionsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	clerks(t, store, 40, "Pay %d euros?")
	s := newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
	p := open(t, s.url())
	p.waitText(".questions-head .alike", "40 alike: Pay … euros?")
	p.fill(".questions-head .who input", "Ada")
	p.inspect("alike")

	p.click(".questions-head .alike button")
	p.wait(`document.querySelectorAll("#alike-rows li").length === 40`)
	p.waitText("#alike-count", "The answer goes to all 40")
	p.wait(`document.querySelector("#alike-form .yes")`)
	p.click("#alike-rows li:nth-child(3) input")
	p.waitText("#alike-count", "The answer goes to 39")
	p.inspect("alike-dialog")
	p.click("#alike-form .yes")
	p.waitText("#alike-said", "39 questions are answered.")
	assert.Equal(t, 39, answersOf(t, store, 40))
	assert.Equal(t, 39, p.count("#alike-rows .done"))
	p.click("#alike-no")
	p.wait(`document.querySelectorAll(".question:not(.answered)").length === 1`)
	p.waitText(".question:not(.answered)", "Pay 20 euros?")
}

// TestMoreQuestionsAppearWhenTheFirstAreAnswered uses more questions than the 1,000 that the server
// sends in one response. The first request for the remaining ones fails.
func TestMoreQuestionsAppearWhenTheFirstAreAnswered(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	const asking = 1300 // more than the 1,000 oldest plus the 250 newest, which the page may have loaded
	clerks(t, store, asking, "Pay %d euros?")
	c := new(control)
	var failed atomic.Bool
	s := newSite(t, stored.New(store), streamer.Options{Control: c}, func(dash http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if query := req.URL.Query(); query.Has("asking") && query.Has("after") && failed.CompareAndSwap(false, true) {
				http.Error(w, "overloaded", http.StatusServiceUnavailable)
				return
			}
			dash.ServeHTTP(w, req)
		})
	})
	p := open(t, s.url())
	p.expectOutages()
	p.waitText(".questions-head .count", " more runs")
	p.click(".questions-head .alike button")
	p.wait(`document.querySelector("#alike-form .yes")`)
	shown := p.count("#alike-rows li")
	assert.GreaterOrEqual(t, shown, 1000)
	p.click("#alike-form .yes")
	p.waitText("#alike-said", fmt.Sprint(shown, " questions are answered."))
	p.click("#alike-no")
	p.wait(fmt.Sprintf(`document.querySelector(".questions-head .count").textContent === "%d"`, asking-shown))
	p.wait(`document.querySelector(".question:not(.answered)")`) // one of the remaining questions is shown
	assert.True(t, failed.Load())
	assert.Len(t, c.requests(), shown)
}

// TestRefusedAnswerIsShownNextToItsQuestion answers several questions, one of which somebody else
// has already answered.
func TestRefusedAnswerIsShownNextToItsQuestion(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	clerks(t, store, 3, "Pay %d euros?")
	c := stored.NewControl(store)
	s := newSite(t, stored.New(store), streamer.Options{Control: c}, nil)
	p := open(t, s.url())
	p.click(".questions-head .alike button")
	p.wait(`document.querySelector("#alike-form .yes")`)
	require.NoError(t, c.Answer(t.Context(), "ticket-02", "clerk?1", "Grace", []byte("false")))
	p.click("#alike-form .yes")
	p.waitText("#alike-said", "2 questions are answered, 1 refused")
	p.waitText("#alike-rows li:nth-child(2) .error", "answered")
}

// TestAQuestionShowsWhatTheRunDidBefore checks that a question shows what the run did before, and
// also how long it has been waiting, when it expires, and that the user may answer it.
func TestAQuestionShowsWhatTheRunDidBefore(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	clerks(t, store, 1, "Pay %d euros?")
	st, err := state.Open(t.Context(), store, "later")
	require.NoError(t, err)
	wait := decorators.Agent("wait", "waits", func(ctx context.Context, _ City) (bool, error) {
		return core.Await[bool](ctx, "Go on?", core.AwaitDefault(time.Hour, true))
	})
	_, err = wait.Call(st.Context(t.Context()), City{"Oslo"})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())

	s := newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
	for _, view := range []string{"", "#run=ticket-01"} {
		p := open(t, s.url()+view)
		card := `[data-question="clerk?1"]`
		p.waitText(card, "asked ")
		p.waitText(card, "waits until it is answered")
		p.waitText(card, "you may answer")
		p.click(card + " .before summary")
		p.waitText(card+" .before", "a customer in Oslo")
		p.waitText(card+" .before", `clerk was given {"name":"Oslo"}`)
		p.waitText(card+" .before li", "look_up")
		if view == "" {
			p.waitText(`[data-question="wait?1"]`, "answered by default in ")
			p.click(".questions-head .fold")
			p.wait(`document.querySelector("#questions").offsetParent === null`)
			p.load("about:blank")
			p.load(s.url())
			p.wait(`document.querySelector(".questions-head .fold") && document.querySelector("#questions").offsetParent === null`) // the folded state is remembered
			p.click(".questions-head .fold")
			p.wait(`document.querySelector("#questions .question").offsetParent !== null`)
			p.click(card + " .before summary")
			p.waitText(card+" .before", "a customer in Oslo")
		}
		p.inspect("question" + fmt.Sprint(len(view)))
	}
}
