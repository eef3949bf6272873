package browser

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// exact is an integer that a number in JavaScript cannot hold.
const exact = "9007199254740993"

func TestLongIntegersAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "trip-1", state.WithPayloads())
	require.NoError(t, err)
	find := decorators.Tool("find", "finds", func(context.Context, City) (json.RawMessage, error) {
		return json.RawMessage(`{"id": ` + exact + `, "all": [-` + exact + `, 7, 0.5, true, null]}`), nil
	})
	_, err = find.Call(st.Context(t.Context()), City{"Oslo"})
	require.NoError(t, err)
	require.NoError(t, st.Close())
	s := newSite(t, stored.New(store), streamer.Options{}, nil)
	p := newTab(t)
	p.load(s.url() + "#run=trip-1&call=find")
	p.waitLive()
	p.wait(`document.querySelector("#detail [data-part=output]")`)
	p.waitText("#detail", exact)
	p.wait(`(document.querySelector("#detail [data-part=output]").click(), true)`)
	p.waitText("#payload-body", "id: "+exact)
	p.waitText("#payload-body", "-"+exact)
	p.wait(`((input) => { input.value = "` + exact + `"; input.dispatchEvent(new Event("input")); return true })(document.querySelector("#payload-search"))`)
	p.waitText("#payload-found", "2 places")
	assert.Equal(t, "fits", eval[string](p, `import(new URL("exact.js", document.baseURI)).then(async ({ parse }) => {
		const { fit } = await import(new URL("fit.js", document.baseURI));
		const value = parse('{"id":`+exact+`}');
		const table = fit(value, { type: "object", properties: { id: { type: "integer" } } });
		return table.querySelector("td:nth-of-type(2)").textContent === "`+exact+`" ? table.querySelector("td:last-child").textContent : table.textContent;
	})`))
}

func TestLongIntegersAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	program := built(t, "./cmd/reprise")
	fourDoors(t, program, `"x"`, "got a string, want an integer", exact, int64(9007199254740993), func(p *tab) {
		p.click(".question .answer input")
		p.keys(exact)
		p.click(".question .send")
	})
	s := newSite(t, stored.New(memstore.New()), streamer.Options{}, nil)
	p := open(t, s.url())
	assert.Equal(t, `{"id":`+exact+`}`, eval[string](p, `import(new URL("answers.js", document.baseURI)).then(({ editorOf }) => {
		const editor = editorOf({});
		editor.input.value = '{"id": `+exact+`}';
		return JSON.stringify(editor.read());
	})`))
	assert.Contains(t, eval[string](p, `import(new URL("answers.js", document.baseURI)).then(({ editorOf }) => {
		return editorOf({ enum: [{ id: 1 }, { id: 2 }] }).node.textContent;
	})`), `{"id":1}`)
}
