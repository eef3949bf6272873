package browser

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// ask publishes runs that wait for an answer. Each answer is recorded immediately, as if a program
// continued the run.
func ask(s *site, c *control, runs int) {
	rec := func(runID string, seq uint64, kind record.Kind, status record.Status, text string) {
		r := record.Record{RunID: runID, Seq: seq, Generation: 1, Time: time.Now(), Kind: kind, Status: status, Detail: &record.Detail{Message: text}}
		if kind == record.KindQuestion || kind == record.KindAnswer {
			r.Name = "clerk?1"
		}
		s.dash.Publish(r)
	}
	c.answer = func(runID, _ string, _ json.RawMessage) {
		rec(runID, 3, record.KindAnswer, record.StatusRecorded, "")
	}
	for i := range runs {
		id := fmt.Sprintf("ticket-%02d", i+1)
		rec(id, 1, record.KindRun, record.StatusStarted, "")
		rec(id, 2, record.KindQuestion, record.StatusAwaiting, "Approve payment "+id+"?")
	}
}

// press presses and releases the mouse button at a position on the page.
func (p *tab) press(x, y float64) {
	p.t.Helper()
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButton("left"), ClickCount: 1})
	}
}

// TestADoubleClickAnswersOneQuestion also checks slow double-clicks.
func TestADoubleClickAnswersOneQuestion(t *testing.T) {
	t.Parallel()
	delays := []time.Duration{50, 300, 500}
	if *long {
		delays = []time.Duration{50, 100, 200, 300, 400, 500}
	}
	for _, between := range delays {
		t.Run((between * time.Millisecond).String(), func(t *testing.T) {
			c := new(control)
			s := newSite(t, nil, streamer.Options{Control: c}, nil)
			ask(s, c, 6)
			p := open(t, s.url())
			p.wait(`document.querySelectorAll(".question").length === 6`)
			p.settle()
			at := eval[struct{ X, Y float64 }](p, `(() => {
				const { x, y, width, height } = document.querySelector(".question .yes").getBoundingClientRect();
				return { X: x + width / 2, Y: y + height / 2 };
			})()`)
			p.press(at.X, at.Y)
			<-time.After(between * time.Millisecond)
			p.press(at.X, at.Y)
			p.wait(`document.querySelectorAll('[data-run] .callname').length === 6 && document.querySelectorAll(".question.answered").length === 1`)
			assert.Equal(t, []string{"answer ticket-01 clerk?1: true"}, c.requests())
			assert.Equal(t, 6, p.count(".question"), "the answered one keeps its place")
		})
	}
}

// TestAQuestionThatMovedUnderThePointerIgnoresAClick checks that such a question ignores the first
// click and accepts the next one.
func TestAQuestionThatMovedUnderThePointerIgnoresAClick(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	ask(s, c, 2)
	p := open(t, s.url())
	p.wait(`document.querySelectorAll(".question").length === 2`)
	p.settle()
	at := eval[struct{ X, Y float64 }](p, `(() => {
		const { x, y, width, height } = document.querySelector(".question .yes").getBoundingClientRect();
		return { X: x + width / 2, Y: y + height / 2 };
	})()`)
	// The second question moves to the position of the first. The page's clock is stopped until the
	// click has arrived, however long that takes.
	eval[bool](p, `(() => {
		const now = performance.now();
		performance.now = () => now;
		const [first, second] = [...document.querySelectorAll(".question")].map((card) => card.getBoundingClientRect().top);
		document.querySelector("#tiles").style.marginTop = (first - second) + "px";
		return true;
	})()`)
	p.press(at.X, at.Y)
	p.waitText(".question:nth-child(2) .error", "had just moved here")
	assert.Empty(t, c.requests())
	eval[bool](p, `delete performance.now`)
	p.settle()
	p.click(".question:nth-child(2) .yes")
	p.wait(`document.querySelectorAll(".question.answered").length === 1`)
	assert.Equal(t, []string{"answer ticket-02 clerk?1: true"}, c.requests())
}

func TestManyQuestionsLeaveTheRunsOnThePage(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	ask(s, c, 40)
	p := open(t, s.url())
	p.wait(`document.querySelectorAll(".question").length === 20`)
	p.waitText(".questions > .more", "20 more questions below these")
	assert.Less(t, eval[float64](p, `document.querySelector("#run-rows .row").getBoundingClientRect().bottom`), 800.0)
	p.settle()
	p.click(".questions-head .fold")
	p.wait(`document.querySelector(".question").offsetParent === null`)
	p.keys("a")
	p.wait(`document.activeElement.matches(".question:first-child .yes")`)
	p.settle()
	p.keys("\r")
	p.waitText(".question.answered", "Answered")
	p.keys("a")
	p.wait(`document.activeElement.matches(".question:nth-child(2) .yes")`)
	p.wait(`document.querySelectorAll(".question:not(.answered)").length === 20`)
	p.waitText(".questions > .more", "19 more questions")
}

func TestAQuestionThatIsAskedAgainSaysWhyEvenAfterAReload(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{Control: new(control)}, nil)
	ask(s, new(control), 1)
	p := open(t, s.url())
	s.dash.Publish(record.Record{
		RunID: "ticket-01", Seq: 3, Generation: 1, Time: time.Now(), Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "clerk?1",
		Detail: &record.Detail{Message: "Approve?"}, Err: &record.Error{Message: "got a number, want a boolean"},
	})
	for range 2 {
		p.wait(`[...document.querySelectorAll(".question:not(.answered)")].some((card) => card.textContent.includes("The previous answer did not fit: got a number, want a boolean"))`)
		p.load("about:blank")
		p.load(s.url())
	}
	assert.NotContains(t, p.text("body"), "undefined")
}
