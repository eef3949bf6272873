package browser

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

func TestAnApprovalTakesOneClick(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	for _, run := range []string{"trip-1", "trip-2"} {
		st := begin(t, s.dash, run)
		tool := decorators.Tool("book", "books", func(context.Context, City) (string, error) { return "", nil }, actors.WithApproval())
		_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
	}
	p := open(t, s.url())
	p.wait(`document.querySelectorAll(".question").length === 2`)
	p.keep("approvals.png")
	assert.True(t, eval[bool](p, `document.querySelector(".question:nth-child(2)").getBoundingClientRect().bottom <= document.querySelector("#questions").getBoundingClientRect().bottom`), "both are in view")
	p.settle()
	p.click(".question:nth-child(1) .yes")
	p.waitText(".question:nth-child(1) .answer", "Answered")
	p.settle()

	p.click(".question:nth-child(2) .answer summary")
	const arguments = `.question:nth-child(2) textarea[data-path="arguments"]`
	assert.JSONEq(t, `{"name": "Oslo"}`, eval[string](p, `document.querySelector(`+quoted(arguments)+`).value`))
	p.click(`.question:nth-child(2) [data-path="reason"]`)
	p.keys("too far")
	p.settle()
	p.keep("approval-details.png")
	eval[string](p, `document.querySelector(`+quoted(arguments)+`).value = "{"`)
	p.click(".question:nth-child(2) .yes")
	p.waitProblem("arguments", "that is not JSON")
	eval[string](p, `document.querySelector(`+quoted(arguments)+`).value = '{"name": "Bergen"}'`)
	p.settle()
	p.click(".question:nth-child(2) .yes")
	p.waitText(".question:nth-child(2) .answer", "Answered")
	assert.Equal(t, []string{
		`answer trip-1 approve_book?1: {"approved":true}`,
		`answer trip-2 approve_book?1: {"approved":true,"arguments":{"name":"Bergen"},"reason":"too far"}`,
	}, c.requests())
}

func TestRedactedArgumentsAreNotSentBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{Control: new(control)}, nil)
	hide := func(text string) string { return strings.ReplaceAll(text, "Oslo", "•••") }
	tool := decorators.Tool("book", "books", func(context.Context, City) (string, error) { return "", nil }, actors.WithApproval())
	p := open(t, s.url())
	p.waitLive()
	for run, trip := range map[string]struct{ city, arguments string }{
		"trip-1": {"Oslo", ""},
		"trip-2": {"(redacted)", `{"name":"(redacted)"}`},
	} {
		st := begin(t, s.dash, run, state.WithRedaction(hide))
		_, err := tool.Call(st.Context(t.Context()), City{trip.city})
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
		for range 2 { // first, the question comes from the stream, then from the state of the run
			p.waitText("#questions", run)
			card := `[...document.querySelectorAll(".question")].find((card) => card.textContent.includes("` + run + `"))`
			assert.Equal(t, trip.arguments, eval[string](p, card+`.querySelector('[data-path="arguments"]').value`), run)
			p.load(s.url())
		}
	}
}
