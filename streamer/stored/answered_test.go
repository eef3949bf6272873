package stored_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// askTwice opens the run "r", which asks two questions at a time.
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

// answersOf says of each question that is shown whether it has an answer.
func answersOf(questions []streamer.QuestionState) map[string]bool {
	answered := make(map[string]bool)
	for _, q := range questions {
		answered[q.ID] = q.Answered
	}
	return answered
}

// An answer waits for the run to be opened. Until then a page that is loaded anew must
// not offer its question again.
func TestQuestionIsMarkedWhoseAnswerWaitsForTheRun(t *testing.T) {
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
			askTwice(t, store) // takes the answer in
			shown(map[string]bool{first: false})
		})
	}
}

// What a run has consumed is known without its records.
func TestUsageOfARunThatIsNotReadIsThatOfItsStore(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			spend := decorators.Tool("spend", "Spends.", func(ctx context.Context, _ struct{}) (string, error) {
				core.AddUsage(ctx, record.Usage{InputTokens: 7, OutputTokens: 2})
				return "", nil
			})
			const runs = 60 // of which 50 are read
			for i := range runs {
				st, err := state.Open(t.Context(), store, fmt.Sprint("r", i))
				require.NoError(t, err)
				_, err = spend.Call(st.Context(t.Context()), struct{}{})
				require.NoError(t, err)
				require.NoError(t, st.Close())
			}
			_, url := serveWith(t, stored.New(store), streamer.Options{})
			all, err := (&streamer.Client{URL: url}).Runs(t.Context(), 100)
			require.NoError(t, err)
			require.Len(t, all.Runs, runs)
			partial := 0
			for _, r := range all.Runs {
				assert.Equal(t, record.Usage{InputTokens: 7, OutputTokens: 2}, r.Usage, r.RunID)
				if r.Partial {
					partial++
				}
			}
			assert.Equal(t, runs-50, partial)
		})
	}
}
