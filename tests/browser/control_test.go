package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/streamer"
)

func TestAQuestionIsAnsweredFromThePage(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	asking(t, begin(t, s.dash, "ticket-1"), "Refund 310 €?")
	askingFor[string](t, begin(t, s.dash, "ticket-2"), "Which reason?")
	askingFor[any](t, begin(t, s.dash, "ticket-3"), "How many?")
	p := open(t, s.url())
	p.wait(`document.querySelectorAll(".question").length === 3`)
	p.waitText(".question:nth-child(1)", "Refund 310 €?")
	p.settle()

	p.click(".question:nth-child(1) .yes")
	p.waitText(".question:nth-child(1) .answer", "Answered")

	p.click(".question:nth-child(2) input")
	p.keys("it moved\r")
	p.waitText(".question:nth-child(2) .answer", "Answered")

	p.click(".question:nth-child(3) textarea")
	p.keys("{")
	p.settle() // the results of the first two answers move this question
	p.click(".question:nth-child(3) .send")
	p.waitText(".question:nth-child(3) .error", "that is not JSON")
	p.click(".question:nth-child(3) textarea")
	p.keys("\"n\": 3}")
	p.click(".question:nth-child(3) .send")
	p.waitText(".question:nth-child(3) .answer", "Answered")
	assert.Equal(t, []string{
		"answer ticket-1 clerk?1: true", `answer ticket-2 clerk?1: "it moved"`, `answer ticket-3 clerk?1: {"n":3}`,
	}, c.requests())
}

func TestAnAnswerThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	asking(t, begin(t, s.dash, "ticket-1"), "Refund?")
	c.failWith(fmt.Errorf("%w: the first answer counts", streamer.ErrConflict))
	p := open(t, s.url())
	p.expectOutages() // the browser logs the status 409 to the console
	p.wait(`document.querySelector(".question")`)
	p.settle()
	p.click(".question .no")
	p.waitText(".question .error:not([hidden])", "the first answer counts")
	c.failWith(nil)
	p.click(".question .no")
	p.waitText(".question .answer", "Answered")
}

func TestARunIsInterruptedFromThePage(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	st := begin(t, s.dash, "trip-1")
	busy(t, st, "book")
	c.interrupt = func(_, message string) {
		st.Interrupt(snapshot.Stop{By: "ops", Message: message})
		go st.Close()
	}
	c.failWith(fmt.Errorf("%w: not while it books", streamer.ErrConflict))
	p := open(t, s.url()+"#run=trip-1")
	p.expectOutages()
	p.wait(`document.querySelector("[data-call]")`)
	p.click("#interrupt")
	p.wait(`document.querySelector("#interrupt-dialog").open`)
	assert.Empty(t, c.requests(), "it asks first")
	p.keys("wrong city\r")
	p.waitText("#interrupt-error", "not while it books")
	c.failWith(nil)
	p.click("#interrupt-yes")
	p.waitText("#run-status", "interrupted")
	p.waitText("#run-banner", "Interrupted by ops: wrong city")
	p.wait(`!document.querySelector("#interrupt-dialog").open && document.querySelector("#interrupt").hidden`)
	assert.Equal(t, "interrupt trip-1: wrong city", c.requests()[1])
}

func TestARunIsCancelledFromThePage(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	st := begin(t, s.dash, "trip-1")
	busy(t, st, "book")
	c.cancel = func(_, message string) {
		st.Cancel(snapshot.Stop{By: "ops", Message: message})
		go st.Close()
	}
	p := open(t, s.url()+"#run=trip-1")
	p.wait(`document.querySelector("[data-call]")`)
	p.click("#cancel")
	p.waitText("#interrupt-title", "Cancel this run for good?")
	assert.Empty(t, c.requests(), "it asks first")
	p.keys("wrong city")
	p.click("#interrupt-yes")
	p.waitText("#run-status", "cancelled")
	p.waitText("#run-banner", "Cancelled for good by ops: wrong city")
	p.wait(`!document.querySelector("#interrupt-dialog").open && document.querySelector("#cancel").hidden && document.querySelector("#interrupt").hidden`)
	assert.Equal(t, []string{"cancel trip-1: wrong city"}, c.requests())
	p.load(s.url())
	p.waitText(`[data-run="trip-1"] .chip`, "cancelled")
	p.waitText(`[data-run="trip-1"] .now`, "Cancelled for good by ops: wrong city")
	p.waitText(`[data-status="cancelled"].tile b`, "1")
}

func TestWithoutPermissionThePageOffersNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	asking(t, begin(t, s.dash, "ticket-1"), "Refund?")
	waiting(t, begin(t, s.dash, "trip-1"), "get_weather", time.Hour, core.Retryable(errBusy))
	p := open(t, s.url())
	p.waitText(".question", "reprise answer ticket-1 'clerk?1' true")
	assert.Zero(t, p.count(".question .answer, .question button:not(.byhand button)"), "only the command, and a button that copies it")
	p.load(s.url() + "#run=trip-1")
	p.wait(`document.querySelector("[data-call]")`)
	assert.True(t, eval[bool](p, `document.querySelector("#interrupt").hidden && document.querySelector("#cancel").hidden`))
	p.keys("i")
	assert.False(t, eval[bool](p, `document.querySelector("#interrupt-dialog").open`))
}
