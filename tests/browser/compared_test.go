package browser

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

type judgement struct {
	Title string   `json:"title" jsonschema:"what it is about"`
	Score int      `json:"score"`
	Notes []string `json:"notes,omitempty"`
}

// TestInputAndAnswerOfAModelAreShown checks that the page shows pictures, compares the answer of a
// typed agent with its schema, and shows the differences from the previous call and from the run
// that was forked.
func TestInputAndAnswerOfAModelAreShown(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 40, 20))))
	answers := []string{`{"title": "Oslo", "score": "high"}`, `{"title": "Oslo", "score": 7, "notes": ["cold"]}`}
	calls := 0
	model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		calls++
		return actors.Response{Message: actors.Assistant(answers[min(calls, len(answers))-1]), Finish: actors.FinishStop}, nil
	})
	judge := actors.NewTypedAgent[actors.Prompt, judgement]("judge", model)
	prompt := actors.Ask("What is this?",
		actors.Image("image/png", picture.Bytes()), actors.Image("image/png", []byte("broken")), actors.ImageURL("https://example.com/far.png"))
	draft, store := memstore.New(), memstore.New()
	for _, id := range []string{"trip-1", "trip-2"} {
		calls = 0
		st, err := state.Open(t.Context(), draft, id, state.WithPayloads())
		require.NoError(t, err)
		got, err := judge.Call(st.Context(t.Context()), prompt)
		require.NoError(t, err)
		require.Equal(t, 7, got.Score)
		require.NoError(t, st.Close())
		prompt.Text = "What is that?"
		run, err := draft.Load(t.Context(), id)
		require.NoError(t, err)
		if id == "trip-2" {
			run.ParentID = "trip-1"
		}
		_, err = store.Create(t.Context(), run)
		require.NoError(t, err)
	}
	s := newSite(t, stored.New(store), streamer.Options{}, nil)

	p := open(t, s.url()+"#run=trip-2&call=judge/model")
	p.wait(`document.querySelector("#detail [data-part=input]")`)
	p.wait(`(document.querySelector("#detail [data-part=input]").click(), true)`)
	p.waitText(".message.r-user", "What is that?")
	p.wait(`document.querySelector(".picture")?.naturalWidth === 40`)
	p.waitText(".message.r-user", "that the browser cannot show")
	p.waitText(".message.r-user", "A picture stored elsewhere: https://example.com/far.png")
	p.inspect("conversation")
	p.choose("#payload-compare", "before the fork: trip-1")
	p.waitText(".difference .minus", "What is this?")
	p.waitText(".difference .plus", "What is that?")
	assert.Equal(t, 2, p.count(".difference .plus, .difference .minus"))
	p.inspect("difference")
	p.choose("#payload-compare", "compare with…")
	p.waitText(".message.r-user", "What is that?")
	p.wait(`(document.querySelector("#payload-close").click(), true)`)

	p.wait(`(location.hash = "#run=trip-2&call=" + encodeURIComponent("judge/model#2"), true)`)
	p.wait(`document.querySelector("#detail .address")?.textContent === "judge/model#2"`)
	p.wait(`(document.querySelector("#detail [data-part=input]").click(), true)`)
	p.wait(`[...document.querySelectorAll("#payload-compare option")].some((option) => option.textContent === "the previous call: judge/model")`)
	p.choose("#payload-compare", "the previous call: judge/model")
	p.waitText(".difference", "equal line")
	p.wait(`document.querySelectorAll(".difference .plus").length > 2 && document.querySelector(".difference .plus").parentElement.textContent.includes("high")`)
	p.wait(`(document.querySelector("#payload-close").click(), true)`)

	for call, want := range map[string]string{"judge": "All fields fit.", "judge/model": "2 of 3 fields do not fit.", "judge/model#2": "All fields fit."} {
		p.wait(`(location.hash = "#run=trip-2&call=" + encodeURIComponent(` + quote(call) + `), true)`)
		p.wait(`document.querySelector("#detail .address")?.textContent === ` + quote(call) + ` && document.querySelector("#detail [data-part=output]")`)
		p.wait(`(document.querySelector("#detail [data-part=output]").click(), true)`)
		p.waitText(".fit", want)
		if call == "judge/model" {
			p.waitText(".fit .unfit", "got a string, want an integer")
			p.waitText(".fit", "what it is about")
			p.inspect("fit")
		}
		p.wait(`(document.querySelector("#payload-close").click(), true)`)
	}
}
