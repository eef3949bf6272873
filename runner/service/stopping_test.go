package service

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// stoppingOf returns who asked the run to stop, according to the run's state and to the list of
// runs.
func stoppingOf(t *testing.T, url, run string) (inState, inList *streamer.Stop) {
	t.Helper()
	_, body := do(t, "GET", url+"api/runs/"+run, "")
	var one struct{ Run streamer.RunState }
	require.NoError(t, json.Unmarshal([]byte(body), &one), body)
	_, body = do(t, "GET", url+"api/runs?text="+run, "")
	var all streamer.RunList
	require.NoError(t, json.Unmarshal([]byte(body), &all), body)
	require.Len(t, all.Runs, 1)
	return one.Run.Stopping, all.Runs[0].Stopping
}

func TestAStopThatIsNotFinishedIsShown(t *testing.T) {
	for action, reason := range map[string]string{"cancel": "cancel", "interrupt": "user"} {
		t.Run(action, func(t *testing.T) {
			began, leave := make(chan struct{}), make(chan struct{})
			url, _ := served(t, Options{}, func(r *runner.Runner) error {
				runner.Register(r, decorators.Agent("deaf", "", func(context.Context, ticket) (string, error) {
					close(began)
					<-leave // the handler ignores its context
					return "", nil
				}))
				return nil
			})
			status, body := do(t, "POST", url+"api/runs", `{"program":"deaf","run_id":"d","input":{"text":""}}`)
			require.Equal(t, 201, status, body)
			<-began
			inState, inList := stoppingOf(t, url, "d")
			assert.Nil(t, inState)
			assert.Nil(t, inList)

			status, body = do(t, "POST", url+"api/runs/d/"+action, `{"by":"bob","message":"enough"}`)
			assert.Equal(t, 202, status)
			assert.JSONEq(t, `{"ok":true,"stopping":true}`, body)
			want := &streamer.Stop{Reason: reason, By: "bob", Message: "enough"}
			inState, inList = stoppingOf(t, url, "d")
			assert.Equal(t, want, inState)
			assert.Equal(t, want, inList)
			status, body = do(t, "POST", url+"api/runs/d/resume", `{}`) // the run stops only after this request
			assert.Equal(t, 409, status)
			assert.Contains(t, body, map[string]string{"cancel": "it was cancelled", "interrupt": "it was asked to stop"}[action]+", and has not stopped yet")

			close(leave)
			until(t, url, "d", map[string]string{"cancel": "run_cancelled", "interrupt": "run_interrupted"}[action])
			inState, _ = stoppingOf(t, url, "d")
			assert.Nil(t, inState)
		})
	}
}

func TestResumeOfARunThatStopsByItselfIsRefusedAtOnce(t *testing.T) {
	began, leave := make(chan struct{}), make(chan struct{})
	url, _ := served(t, Options{}, func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("deaf", "", func(ctx context.Context, _ ticket) (string, error) {
			state.From(ctx).Interrupt(snapshot.Stop{Message: "enough"})
			close(began)
			<-leave
			return "", nil
		}))
		return nil
	})
	status, body := do(t, "POST", url+"api/runs", `{"program":"deaf","run_id":"d","input":{"text":""}}`)
	require.Equal(t, 201, status, body)
	<-began
	status, body = do(t, "POST", url+"api/runs/d/resume", `{}`) // the run stops only after this request
	assert.Equal(t, 409, status)
	assert.Contains(t, body, "it was asked to stop, and has not stopped yet")
	close(leave)
	until(t, url, "d", "run_interrupted")
}
