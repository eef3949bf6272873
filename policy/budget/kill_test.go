package budget_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) { process.Main(m, process.Programs{"spend": spend}) }

// spend continues a run that calls a service endlessly. The process is killed during its third
// call, after the service has answered.
func spend(args ...string) error {
	ctx := context.Background()
	store, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	accounts, err := budget.OpenDir(args[1])
	if err != nil {
		return err
	}
	b := budget.New(budget.Options{Name: "run", Limit: budget.Amount{Calls: 10}, Storage: accounts})
	made := 0
	llm := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, args[2], nil)
		if err != nil {
			return actors.Response{}, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return actors.Response{}, err
		}
		_ = resp.Body.Close()
		if made++; made == 3 {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return actors.Response{}, err
			}
			_ = self.Kill()
			select {} // wait for the kill
		}
		return actors.Response{Message: actors.Assistant("yes")}, nil
	}, actors.WithInterceptors(b.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (int, error) {
		for {
			if _, err := llm.Call(ctx, question); err != nil {
				return 0, err
			}
		}
	})
	st, err := state.Open(ctx, store, "run")
	if err != nil {
		return err
	}
	_, err = agent.Call(st.Context(ctx), struct{}{})
	if !errors.Is(err, core.ErrBudget) {
		return errors.Join(errors.New("the run did not end with its budget"), err)
	}
	return st.Close()
}

// A run that is killed in every third call, after the call was charged, makes exactly as many
// charged calls as the budget allows.
func TestBudgetHoldsAcrossKills(t *testing.T) {
	var paid atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paid.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	dir, accounts := t.TempDir(), t.TempDir()
	kills := 0
	for {
		out, err := process.Command(t, "spend", dir, accounts, server.URL).CombinedOutput()
		if err == nil {
			break
		}
		if kills++; kills > 5 {
			require.NoError(t, err, "%s", out)
		}
	}
	assert.Equal(t, 3, kills)
	assert.EqualValues(t, 10, paid.Load())
}
