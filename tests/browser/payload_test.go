package browser

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestInputsAndOutputsAreReadInFull checks that the page shows complete inputs and
// outputs: JSON can be folded and searched, a request to a model is shown as a
// conversation, and an error keeps its line breaks.
func TestInputsAndOutputsAreReadInFull(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "trip-1", state.WithPayloads())
	require.NoError(t, err)
	list := decorators.Tool("list", "lists", func(context.Context, City) (json.RawMessage, error) {
		type entry struct {
			Number int    `json:"number"`
			Note   string `json:"note"`
		}
		all := make([]entry, 1000)
		for i := range all {
			all[i] = entry{i, "one\nof many <b>notes</b>"}
		}
		all[777].Note = "the needle"
		return json.Marshal(map[string]any{"entries": all})
	})
	chat := decorators.Tool("chat", "chats", func(_ context.Context, in map[string]any) (map[string]any, error) {
		return nil, core.Permanent(&record.Error{Message: "line one\nline two\n" + strings.Repeat("and more ", 300)})
	})
	_, err = list.Call(st.Context(t.Context()), City{"Oslo"})
	require.NoError(t, err)
	_, err = chat.Call(st.Context(t.Context()), map[string]any{"messages": []map[string]any{
		{"role": "user", "text": "What is the weather?"},
		{"role": "assistant", "reasoning": "I look it up.", "tool_calls": []map[string]any{{"id": "1", "name": "get_weather", "arguments": `{"city":"Oslo"}`}}},
		{"role": "tool", "tool_call_id": "1", "text": `{"degrees":7}`},
	}})
	require.Error(t, err)
	require.NoError(t, st.Close())
	s := newSite(t, stored.New(store), streamer.Options{}, nil)

	p := newTab(t)
	p.before(`globalThis.copied = []; Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void copied.push(text) } });`)
	p.load(s.url() + "#run=trip-1&call=list")
	p.waitLive()
	p.wait(`document.querySelector("#detail [data-part=output]")`)
	p.wait(`(document.querySelector("#detail [data-part=output]").click(), true)`)
	p.waitText("#payload-title", "Output of list")
	p.waitText("#payload-body", "[1000]")
	assert.Less(t, eval[float64](p, `document.querySelectorAll("#payload-body *").length`), float64(3000), "folded values have no elements")
	p.wait(`((input) => { input.value = "needle"; input.dispatchEvent(new Event("input")); return true })(document.querySelector("#payload-search"))`)
	p.waitText("#payload-found", "1 place")
	p.waitText("#payload-body .hit", "the needle")
	p.click("#payload-copy")
	p.waitText("#payload-found", "copied")
	assert.True(t, eval[bool](p, `fetch(document.querySelector("#payload-download").href).then(async (r) => r.headers.get("Content-Disposition") === 'attachment; filename="output.json"' && (await r.text()) === copied[0])`))
	assert.Empty(t, p.violations())
	p.wait(`(document.querySelector("#payload-close").click(), location.hash = "#run=trip-1&call=chat", true)`)

	p.wait(`document.querySelector("#detail-title")?.textContent === "chat" && document.querySelector("#detail [data-part=input]")`)
	p.wait(`(document.querySelector("#detail [data-part=input]").click(), true)`)
	p.waitText(".message.r-user", "What is the weather?")
	p.waitText(".message.r-assistant .toolcall", "degrees")
	assert.Equal(t, 2, p.count(".message"), "the result of a tool is beside its call")
	assert.False(t, eval[bool](p, `document.querySelector(".reasoning").open`))
	for _, scheme := range []string{"dark", "light"} {
		p.colours(scheme)
		p.settle()
		assert.Empty(t, p.violations(), scheme)
	}
	p.size(320, 700)
	p.wait(`innerWidth === 320`)
	assert.LessOrEqual(t, eval[float64](p, `document.documentElement.scrollWidth - innerWidth`), float64(0))
	p.wait(`(document.querySelector("#payload-close").click(), document.querySelector("#detail [data-part=error]").click(), true)`)
	p.waitText("#payload-body pre", "line one\nline two\nand more")
	assert.Greater(t, eval[float64](p, `document.querySelector("#payload-body pre").textContent.length`), float64(2700))
	p.expectOutages()
	p.wait(`(document.querySelector("#payload-close").click(), globalThis.fetch = () => Promise.reject(new Error("no network")), document.querySelector("#detail [data-part=error]").click(), true)`)
	p.waitText("#payload-body .error", "no network")
	assert.True(t, eval[bool](p, `document.querySelector("#payload-copy").disabled`), "a value that was not loaded cannot be copied")
}
