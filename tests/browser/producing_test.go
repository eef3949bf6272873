package browser

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/streamer"
)

// speaker is a model that streams the words sent on the channel, until the channel is closed. An
// empty word makes the attempt fail.
type speaker chan string

func (s speaker) answer(ctx context.Context, _ actors.Request) (actors.Response, error) {
	var said strings.Builder
	for word := range s {
		if word == "" {
			core.AddUsage(ctx, core.Usage{InputTokens: 12, OutputTokens: 5, Estimated: true})
			return actors.Response{}, core.Retryable(errors.New("cut off"))
		}
		live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		said.WriteString(word)
	}
	return actors.Response{Message: actors.Assistant(said.String())}, nil
}

// converse begins a run in which an agent calls the speaker. The run ends when end is called, or at
// the end of the test.
func converse(t *testing.T, dash *streamer.Handler, id string, s speaker) (end func()) {
	st := begin(t, dash, id)
	llm := actors.NewLLM("model", s.answer, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	assistant := actors.NewAgent("assistant", llm)
	var ended bool
	end = func() {
		if !ended {
			ended = true
			close(s)
		}
	}
	background(t, func() {
		_, err := assistant.Call(live.Watch(st.Context(context.WithoutCancel(t.Context())), dash.PublishDelta), actors.Ask("Hello"))
		assert.NoError(t, err)
		assert.NoError(t, st.Close())
	})
	t.Cleanup(end)
	return end
}

// The page of a run that another process executes says that partial output is not available here.
func TestPageSaysThatOutputIsElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{Elsewhere: func(context.Context, string) bool { return true }}, nil)
	begin(t, s.dash, "chat-1")
	p := open(t, s.url()+"#run=chat-1")
	p.waitText("#producing-none", "not available here")
	assert.False(t, eval[bool](p, `document.querySelector("#producing").hidden`))
}

const produced = `[data-producing="assistant/model"] .produced`

func TestTheAnswerOfAModelGrowsWhileItIsGenerated(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	words := make(speaker)
	end := converse(t, s.dash, "chat-1", words)
	p := open(t, s.url()+"#run=chat-1")
	p.waitText("#run-status", "running")
	assert.True(t, eval[bool](p, `document.querySelector("#producing").hidden`), "nothing is shown before")

	words <- "The first "
	p.waitText(produced, "The first ")
	words <- "words, <b>and</b>"
	p.waitText(produced, "The first words, <b>and</b>")
	late := open(t, s.url()+"#run=chat-1")
	late.waitText(produced, "The first words, <b>and</b>")
	words <- " more."
	p.waitText(produced, "The first words, <b>and</b> more.")
	late.waitText(produced, "The first words, <b>and</b> more.")

	words <- ""                               // the attempt fails, and the next one begins
	p.waitText("#run-facts", "~12 in, 5 out") // estimated: the service reports no tokens for the failed attempt
	words <- "Anew."
	p.wait(`document.querySelector('` + produced + `')?.textContent === "Anew."`)
	p.wait(`document.querySelectorAll('[data-call="assistant/model"] .b-retried').length === 1`)

	p.click(`[data-producing="assistant/model"] button`)
	p.waitText("#detail-title", "model")
	end()
	p.waitText("#run-status", "completed")
	p.wait(`document.querySelector("#producing").hidden && !document.querySelector("[data-producing]")`)
	p.waitText("#detail", "Anew.") // from the record
	p.waitText("#detail", "~12 in, 5 out")
	all := open(t, s.url())
	all.waitText(`[data-run="chat-1"] .usage`, "~17")
	all.waitText("#tiles", "~17")
}

func TestAPageThatWasAwayShowsWhatIsProducedNow(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	words := make(speaker)
	end := converse(t, s.dash, "chat-1", words)
	p := open(t, s.url()+"#run=chat-1")
	words <- "before "
	p.waitText(produced, "before ")
	p.load(s.url() + "#")
	words <- "and after"
	p.load(s.url() + "#run=chat-1")
	p.waitText(produced, "before and after")
	end()
	p.waitText("#run-status", "completed")
}

func TestASecretThatSpansTwoDeltasIsNotOnThePage(t *testing.T) {
	t.Parallel()
	rules, err := redact.New("sk-planted-[0-9]{10}")
	require.NoError(t, err)
	s := newSite(t, nil, streamer.Options{Redact: rules}, nil)
	words := make(speaker)
	end := converse(t, s.dash, "chat-1", words)
	p := open(t, s.url()+"#run=chat-1")
	p.wait(`new MutationObserver(() => globalThis.leaked ||= document.body.textContent.includes("sk-planted")).observe(document.body, { subtree: true, childList: true, characterData: true }) || true`)
	for _, word := range []string{"The key is sk-planted", "-0123456789. ", strings.Repeat("Keep it. ", 20)} {
		words <- word
	}
	p.waitText(produced, "The key is (redacted). Keep it.")
	end()
	p.waitText("#run-status", "completed")
	assert.False(t, eval[bool](p, `Boolean(globalThis.leaked)`))
	require.NotContains(t, p.text("body"), "sk-planted")
}
