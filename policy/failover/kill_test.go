package failover_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/policy/failover"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) { process.Main(m, process.Programs{"ask": ask}) }

// askAt returns a model at a URL.
func askAt(name, url string) actors.LLM {
	return actors.NewLLM(name, func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/"+name, nil)
		if err != nil {
			return actors.Response{}, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return actors.Response{}, err
		}
		defer resp.Body.Close()
		if err := httperror.Check(resp); err != nil {
			return actors.Response{}, err
		}
		text, err := io.ReadAll(resp.Body)
		return actors.Response{Message: actors.Assistant(string(text))}, err
	})
}

// ask makes three calls. In each of them, the process is killed once, when the model has answered
// but the outer call has not ended.
func ask(args ...string) error {
	ctx := context.Background()
	store, err := filestore.New(args[0])
	if err != nil {
		return err
	}
	killing := core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		err := next(ctx)
		mark, failed := os.OpenFile(fmt.Sprintf("%s/%x", args[2], call.Address.String()), os.O_CREATE|os.O_EXCL, 0o600)
		if failed != nil { // the process was already killed at this call
			return err
		}
		_ = mark.Close()
		self, failed := os.FindProcess(os.Getpid())
		if failed != nil {
			return failed
		}
		_ = self.Kill()
		select {} // wait for the kill
	}}
	o := failover.Options{Retry: &core.RetryConfig{MaxAttempts: 1}, Actor: []actors.Option{actors.WithInterceptors(killing)}}
	if args[3] == "hedging" {
		o.HedgeAfter = time.Minute
	}
	llm := failover.New("any", o, askAt("first", args[1]), askAt("second", args[1]))
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (string, error) {
		var all string
		for range 3 {
			resp, err := llm.Call(ctx, question)
			if err != nil {
				return "", err
			}
			all += resp.Message.Text
		}
		return all, nil
	})
	st, err := state.Open(ctx, store, "run")
	if err != nil {
		return err
	}
	out, err := agent.Call(st.Context(ctx), struct{}{})
	if err == nil && out != "yesyesyes" {
		err = errors.New(out)
	}
	return errors.Join(err, st.Close())
}

// A run that was killed after the second model had answered does not call that model
// again.
func TestKillAfterAnAnswerDoesNotPayAgain(t *testing.T) {
	for _, how := range []string{"in order", "hedging"} {
		t.Run(how, func(t *testing.T) {
			var mu sync.Mutex
			asked := make(map[string]int)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.URL.Path]++
				if r.URL.Path == "/first" {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = io.WriteString(w, "yes")
			}))
			defer server.Close()
			dir, marks := t.TempDir(), t.TempDir()
			kills := 0
			for {
				out, err := process.Command(t, "ask", dir, server.URL, marks, how).CombinedOutput()
				if err == nil {
					break
				}
				if kills++; kills > 3 {
					require.NoError(t, err, "%s", out)
				}
			}
			assert.Equal(t, 3, kills)
			assert.Equal(t, map[string]int{"/first": 3, "/second": 3}, asked)
		})
	}
}
