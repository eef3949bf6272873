package stored_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// askTwice opens the run "r", which then asks two questions at the same time.
func askTwice(t *testing.T, store snapshot.Store) {
	t.Helper()
	ask := decorators.Agent("ask", "Asks.", func(ctx context.Context, _ struct{}) (string, error) {
		well := func(ctx context.Context) (string, error) { return core.Await[string](ctx, "well?") }
		out, err := actors.Parallel(ctx, actors.Group{Name: "g", CollectAll: true}, well, well)
		return fmt.Sprint(out), err
	})
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	_, _ = ask.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, st.Close())
}

// answersOf returns, for each question, whether it has an answer.
func answersOf(questions []streamer.QuestionState) map[string]bool {
	answered := make(map[string]bool)
	for _, q := range questions {
		answered[q.ID] = q.Answered
	}
	return answered
}

// An answer is stored until the run is opened. In the meantime, a page that is reloaded must not
// ask the question again.
func TestQuestionWhoseAnswerWaitsForTheRunIsMarked(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			_, url := serveWith(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)})
			client := &streamer.Client{URL: url}
			shown := func(want map[string]bool) {
				t.Helper()
				var one struct{ Run streamer.RunState }
				require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/runs/r")), &one))
				assert.Equal(t, want, answersOf(one.Run.Questions), "of the run")
				all, err := client.Runs(t.Context(), 100)
				require.NoError(t, err)
				require.Len(t, all.Runs, 1)
				assert.Equal(t, want, answersOf(all.Runs[0].Questions), "in the list")
			}
			const first, second = "ask/group:g/1?1", "ask/group:g/2?1"
			askTwice(t, store)
			shown(map[string]bool{first: false, second: false})
			require.NoError(t, client.Answer(t.Context(), "r", second, "", "yes"))
			shown(map[string]bool{first: false, second: true})
			askTwice(t, store) // the run takes the answer from the store
			shown(map[string]bool{first: false})
		})
	}
}

// A list of runs is made without reading the records of stopped runs.
func TestAListReadsNoRecordsOfRunsThatHaveStopped(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			spend := decorators.Tool("spend", "Spends.", func(ctx context.Context, in in) (string, error) {
				n := in.N
				core.AddUsage(ctx, record.Usage{InputTokens: 7 + n, OutputTokens: 2})
				if n == 2 {
					return "", core.Permanent(errors.New("no money"))
				}
				return core.Await[string](ctx, fmt.Sprintf("spend %d?", n))
			})
			const runs = 4
			for i := range runs {
				st, err := state.Open(t.Context(), store, fmt.Sprint("r", i), state.WithMetadata(snapshot.Metadata{Description: fmt.Sprint("Number ", i)}))
				require.NoError(t, err)
				_, _ = spend.Call(st.Context(t.Context()), in{i})
				require.NoError(t, st.Close())
			}
			_, url := serveWith(t, unread{stored.New(store), t}, streamer.Options{})
			all, err := (&streamer.Client{URL: url}).Runs(t.Context(), 100)
			require.NoError(t, err)
			require.Len(t, all.Runs, runs)
			assert.Equal(t, map[string]int{"paused": 3, "failed": 1}, all.Counts)
			for i, r := range all.Runs {
				n := runs - 1 - i
				assert.Equal(t, fmt.Sprint("r", n), r.RunID)
				assert.Equal(t, record.Usage{InputTokens: 7 + n, OutputTokens: 2}, r.Usage, r.RunID)
				assert.Equal(t, 1, r.Calls.Started)
				if n == 2 {
					require.NotNil(t, r.LastError)
					assert.Equal(t, "no money", r.LastError.Message)
					assert.Equal(t, "spend", r.LastError.Name)
					assert.Equal(t, "permanent", r.LastError.Class)
					continue
				}
				require.Len(t, r.Questions, 1)
				assert.Equal(t, fmt.Sprintf("spend %d?", n), r.Questions[0].Text)
				assert.False(t, r.Questions[0].Asked.IsZero())
			}

			var page streamer.RunList
			for want, query := range map[string]string{
				"r3": "sort=tokens&limit=1", "r0": "sort=tokens&order=asc&limit=1", "r2": "class=permanent", "r1": "text=number+1&status=paused,failed",
			} {
				require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/runs?"+query)), &page), query)
				require.Len(t, page.Runs, 1, query)
				assert.Equal(t, want, page.Runs[0].RunID, query)
			}
			var got []string
			for after := ""; ; {
				page = streamer.RunList{}
				require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/runs?limit=1&status=paused&sort=start&after="+after)), &page))
				assert.Equal(t, 3, page.Total)
				assert.Equal(t, map[string]int{"paused": 3, "failed": 1}, page.Counts)
				for _, r := range page.Runs {
					got = append(got, r.RunID)
				}
				if after = page.Next; after == "" {
					break
				}
			}
			assert.Equal(t, []string{"r3", "r1", "r0"}, got)

			_, url = serveWith(t, stored.New(store), streamer.Options{}) // listing questions reads records, for the answers' schemas
			var asked streamer.OpenQuestions
			require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/questions?limit=2")), &asked))
			assert.Equal(t, 3, asked.Asking)
			require.Len(t, asked.Questions, 2)
			assert.Equal(t, "r3", asked.Questions[0].RunID)
			assert.Equal(t, "spend 3?", asked.Questions[0].Text)
			require.NotEmpty(t, asked.Next)
			next := body(t, url+"/api/questions?limit=2&after="+asked.Next)
			assert.Contains(t, next, "spend 0?")
			assert.NotContains(t, next, `"next"`)
		})
	}
}

// unread is a source whose records must not be read.
type unread struct {
	*stored.Runs
	t *testing.T
}

func (u unread) Records(context.Context, string, uint64) iter.Seq2[record.Record, error] {
	u.t.Error("records were read")
	return func(func(record.Record, error) bool) {}
}

// The run has more questions than its RunInfo contains.
func TestAllQuestionsOfARunAreListed(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			const asks = 30
			ask := decorators.Agent("ask", "Asks.", func(ctx context.Context, _ struct{}) (string, error) {
				var branches []func(context.Context) (string, error)
				for i := range asks {
					branches = append(branches, func(ctx context.Context) (string, error) { return core.Await[string](ctx, fmt.Sprint("well ", i, "?")) })
				}
				_, err := actors.Parallel(ctx, actors.Group{Name: "g", CollectAll: true}, branches...)
				return "", err
			})
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			_, _ = ask.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			_, url := serveWith(t, stored.New(store), streamer.Options{})
			var asked streamer.OpenQuestions
			require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/questions")), &asked))
			assert.Len(t, asked.Questions, asks)
			assert.Equal(t, 1, asked.Asking)
			require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/questions?status=completed")), &asked))
			assert.Zero(t, asked.Asking, "of the runs that were asked for")
		})
	}
}

// The run is open: one of its calls asks a question while another one works.
func TestQuestionsOfARunningRunAreListed(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			askTwice(t, store)
			st, err := state.Open(t.Context(), store, "running")
			require.NoError(t, err)
			working := make(chan struct{})
			work := decorators.Tool("work", "Works.", func(ctx context.Context, _ struct{}) (string, error) {
				close(working)
				<-ctx.Done()
				return "", ctx.Err()
			})
			ask := decorators.Tool("ask", "Asks.", func(ctx context.Context, _ struct{}) (string, error) {
				return core.Await[string](ctx, "may I?")
			})
			worked := make(chan error, 1)
			go func() {
				_, err := work.Call(st.Context(t.Context()), struct{}{})
				worked <- err
			}()
			<-working
			_, err = ask.Call(st.Context(t.Context()), struct{}{})
			require.ErrorIs(t, err, core.ErrAwaiting)

			_, url := serveWith(t, stored.New(store), streamer.Options{})
			for query, want := range map[string][]string{
				"": {"r", "running"}, "status=running": {"running"}, "status=paused": {"r"}, "text=MAY": {"running"}, "text=well": {"r"},
			} {
				var asked streamer.OpenQuestions
				require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/questions?sort=start&order=asc&"+query)), &asked), query)
				assert.Equal(t, len(want), asked.Asking, query)
				var runs []string
				for _, q := range asked.Questions {
					runs = append(runs, q.RunID)
				}
				assert.Equal(t, want, slices.Compact(runs), query)

				var page streamer.RunList
				require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/runs?asking=true&sort=start&order=asc&"+query)), &page), query)
				assert.Equal(t, len(want), page.Total, query)
				require.Len(t, page.Runs, len(want), query)
				for i := range want {
					assert.Equal(t, want[i], page.Runs[i].RunID, query)
				}
			}
			require.NoError(t, st.Close())
			require.ErrorIs(t, <-worked, core.ErrInterrupted)
		})
	}
}

func TestQueriesThatMakeNoSenseAreRefused(t *testing.T) {
	for name, store := range stores(t) {
		_, url := serveWith(t, stored.New(store), streamer.Options{})
		for query, want := range map[string]string{
			"colour=red":             `there is no parameter \"colour\"; the parameters are`,
			"status=asleep":          `unknown status \"asleep\"; want one of [queued`,
			"sort=colour":            "want one of [updated start",
			"order=up":               "want asc or desc",
			"since=yesterday":        "want a time such as",
			"limit=0":                "want 1 to",
			"asking=perhaps":         "want true or false",
			"after=nowhere":          "want the value of next in a page",
			"sort=cost&after=7/r":    "want the value of next in a page",
			"program=a&program=b":    "want it once",
			"text=%zz":               "cannot parse the URL's query",
			"class=teapot":           `class is \"teapot\": want one of unknown, timeout`,
			"sort=tokens&after=cost": "want the value of next in a page",
		} {
			for _, path := range []string{"/api/runs?", "/api/questions?"} {
				resp, err := http.Get(url + path + query)
				require.NoError(t, err)
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "%s: %s", name, query)
				assert.Contains(t, string(data), want, "%s: %s", name, query)
			}
		}
	}
}

// A list is made without the records of its runs, but still has the address of the call that asks
// each question.
func TestListedQuestionHasTheAddressOfItsCall(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			askTwice(t, store)
			pay := decorators.Tool("pay", "Pays.", func(ctx context.Context, _ struct{}) (bool, error) {
				if core.ScopeOf(ctx).Attempt() == 0 {
					return false, core.Retryable(errors.New("busy"))
				}
				return core.Await[bool](ctx, "really?")
			}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
			st, err := state.Open(t.Context(), store, "second-attempt")
			require.NoError(t, err)
			_, err = pay.Call(st.Context(t.Context()), struct{}{})
			require.ErrorIs(t, err, core.ErrAwaiting)
			require.NoError(t, st.Close())

			_, url := serveWith(t, stored.New(store), streamer.Options{})
			var listed streamer.OpenQuestions
			require.NoError(t, json.Unmarshal([]byte(body(t, url+"/api/questions")), &listed))
			askers := make(map[string]string)
			for _, q := range listed.Questions {
				askers[q.ID] = q.Address.String()
			}
			assert.Equal(t, map[string]string{"ask/group:g/1?1": "ask/group:g/1", "ask/group:g/2?1": "ask/group:g/2", "pay?1": "pay"}, askers)
		})
	}
}
