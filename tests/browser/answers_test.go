package browser

import (
	"context"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// A verdict is an answer with fields.
type verdict struct {
	Approved bool   `json:"approved"`
	Level    string `json:"level" enum:"low,high"`
	Limit    int8   `json:"limit,omitempty"`
}

// An order is an answer with nested objects.
type order struct {
	Customer customer `json:"customer"`
	Items    []item   `json:"items"`
	Note     *string  `json:"note"`
}

type customer struct {
	Name    string   `json:"name"`
	Address *address `json:"address,omitempty"`
}

type address struct {
	City string `json:"city"`
	Zip  int    `json:"zip"`
}

type item struct {
	SKU   string `json:"sku"`
	Count uint   `json:"count"`
}

// A size is an enumeration.
type size string

// JSONSchemaEnum lists the sizes.
func (size) JSONSchemaEnum() []any { return []any{"small", "large"} }

// door is a way to answer a run's question. It returns the error message if the answer was refused,
// or "" if it was accepted.
type door func(t *testing.T, dir, value string) (refused string)

// throughGo answers through the Go API.
func throughGo(t *testing.T, dir, value string) string {
	v, err := state.JSONAnswer([]byte(value))
	require.NoError(t, err)
	return textOf(state.Answer(t.Context(), newStore(t, dir), "r", "ask?1", "", v))
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// throughHTTP answers through the HTTP API.
func throughHTTP(t *testing.T, dir, value string) string {
	s := siteOf(t, dir)
	return textOf((&streamer.Client{URL: s.url()}).Answer(t.Context(), "r", "ask?1", "", json.RawMessage(value)))
}

// throughCommand answers through the command reprise, in a separate process.
func throughCommand(program string) door {
	return func(t *testing.T, dir, value string) string {
		out, err := exec.CommandContext(t.Context(), program, "--dir", dir, "answer", "r", "ask?1", "--", value).CombinedOutput()
		if err == nil {
			assert.Contains(t, string(out), "question ask?1 of run r is answered; no program has resumed the run yet: it continues when its program opens it")
			return ""
		}
		return string(out)
	}
}

func newStore(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	return store
}

func siteOf(t *testing.T, dir string) *site {
	t.Helper()
	store := newStore(t, dir)
	return newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
}

// asked returns the directory of a run that waits for an answer of type T, and a function that
// continues the run and returns that answer.
func asked[T any](t *testing.T) (dir string, continueRun func() (T, error)) {
	t.Helper()
	dir = t.TempDir()
	ask := decorators.Tool("ask", "asks", func(ctx context.Context, _ City) (T, error) { return core.Await[T](ctx, "well \x1b[31m\u202etxt?") })
	continueRun = func() (T, error) {
		st, err := state.Open(t.Context(), newStore(t, dir), "r")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		return ask.Call(st.Context(t.Context()), City{})
	}
	_, err := continueRun()
	require.ErrorIs(t, err, core.ErrAwaiting)
	return dir, continueRun
}

// fourDoors gives a wrong answer and then a right one, in each of the four ways to answer.
func fourDoors[T any](t *testing.T, program string, wrong, says, right string, want T, page func(p *tab)) {
	for name, through := range map[string]door{"Go": throughGo, "HTTP": throughHTTP, "command": throughCommand(program)} {
		t.Run(name, func(t *testing.T) {
			dir, continueRun := asked[T](t)
			before, err := newStore(t, dir).Info(t.Context(), "r")
			require.NoError(t, err)
			assert.Contains(t, through(t, dir, wrong), says)
			assertNothingRecorded(t, dir, before)
			assert.Empty(t, through(t, dir, right))
			got, err := continueRun()
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	t.Run("page", func(t *testing.T) {
		dir, continueRun := asked[T](t)
		p := open(t, siteOf(t, dir).url())
		p.wait(`document.querySelector(".question .answer")`)
		p.waitText(".question-text", `well \x1b[31m\u202etxt?`)
		p.settle()
		page(p)
		p.waitText(".question .answer", "Answered. No program has continued the run yet")
		got, err := continueRun()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}

func assertNothingRecorded(t *testing.T, dir string, before snapshot.Info) {
	t.Helper()
	store := newStore(t, dir)
	after, err := store.Info(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, before, after)
	waiting, err := store.Messages(t.Context(), "r")
	require.NoError(t, err)
	assert.Empty(t, waiting)
}

// choose picks an option of a select element by the option's text.
func (p *tab) choose(selector, text string) {
	p.t.Helper()
	require.True(p.t, eval[bool](p, `(() => {
		const select = document.querySelector(`+quoted(selector)+`);
		const option = [...select.options].find((option) => option.text === `+quoted(text)+`);
		if (!option) return false;
		select.value = option.value;
		for (const name of ["input", "change"]) select.dispatchEvent(new Event(name, { bubbles: true }));
		return true;
	})()`), text)
}

func quoted(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

func TestQuestionsAreAnsweredFromFourDoors(t *testing.T) {
	t.Parallel()
	program := built(t, "./cmd/reprise")

	t.Run("bool", func(t *testing.T) {
		fourDoors(t, program, `"yes"`, "got a string, want a boolean", `true`, true, func(p *tab) {
			assert.Equal(t, 2, p.count(".question .answer button"), "yes, no, and nothing else")
			assert.Zero(t, p.count(".question .answer input"))
			p.click(".question .yes")
		})
	})
	t.Run("enum", func(t *testing.T) {
		fourDoors(t, program, `"huge"`, `got "huge", want one of "small", "large"`, `"large"`, size("large"), func(p *tab) {
			assert.Equal(t, 2, p.count(".question .answer button"))
			p.click(".question .answer button:nth-of-type(2)")
		})
	})
	t.Run("object", func(t *testing.T) {
		fourDoors(t, program, `{"aproved": true, "level": "low"}`, "approved: required field is missing", `{"approved": true, "level": "high"}`, verdict{Approved: true, Level: "high"}, func(p *tab) {
			p.expectOutages() // the browser logs the status 400 to the console
			p.click(".question .send")
			p.waitProblem("approved", "this is needed")
			p.choose(".question .field:nth-of-type(1) select", "yes")
			p.choose(".question .field:nth-of-type(2) select", "high")
			p.click(".question .field:nth-of-type(3) input")
			p.keys("300")
			p.click(".question .send")
			p.waitProblem("limit", "got 300, want at most 127")
			eval[bool](p, `(() => { document.querySelector(".question .field:nth-of-type(3) input").value = ""; return true; })()`)
			p.click(".question .send")
		})
	})
	t.Run("nested objects", func(t *testing.T) {
		want := order{Customer: customer{Name: "Ada", Address: &address{City: "Oslo", Zip: 150}}, Items: []item{{"tea", 2}, {"pot", 1}}}
		fourDoors(t, program, `{"customer": {"name": "Ada", "address": {"city": "Oslo"}}, "items": [], "note": null}`, "customer.address.zip: required field is missing",
			`{"customer": {"name": "Ada", "address": {"city": "Oslo", "zip": 150}}, "items": [{"sku": "tea", "count": 2}, {"sku": "pot", "count": 1}], "note": null}`, want, func(p *tab) {
				p.expectOutages() // the browser logs the status 400 to the console
				field := func(label string, n int, text string) {
					p.t.Helper()
					require.True(p.t, eval[bool](p, `(() => {
						const named = [...document.querySelectorAll(".question .answer label.field")].filter((field) => field.querySelector(".field-name").textContent.replace(" (optional)", "") === `+quoted(label)+`);
						named[`+quoted(n)+`]?.querySelector("input")?.focus();
						return named.length > `+quoted(n)+`;
					})()`), label)
					p.keys(text)
				}
				field("name", 0, "Ada")
				field("city", 0, "Oslo")
				p.click(".question .send")
				p.waitProblem("zip", "this is needed")
				field("zip", 0, "150")
				for i, sku := range []string{"tea", "pot"} {
					p.click(".question .add")
					field("sku", i, sku)
				}
				field("count", 0, "-1")
				field("count", 1, "1")
				p.click(".question .send")
				p.waitProblem("count", "got -1, want at least 0")
				eval[bool](p, `(() => { document.querySelector(".question .list-row .field:nth-of-type(2) input").value = "2"; return true; })()`)
				p.click(".question .send")
			})
	})
	t.Run("list", func(t *testing.T) {
		fourDoors(t, program, `["a", 1]`, "[1]: got an integer, want a string", `["a", "b"]`, []string{"a", "b"}, func(p *tab) {
			for _, text := range []string{"a", "x", "b"} {
				p.click(".question .add")
				p.keys(text)
			}
			p.click(".question .list-row:nth-of-type(2) button")
			p.click(".question .send")
		})
	})
}
