//go:build unix

package service

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// BenchmarkDeltas measures the CPU time of a service for 200 concurrent runs whose models stream:
// without clients, with one client per run that receives its records, and with one that receives
// records and deltas. For comparison, it also measures a runner without a service, which does not
// ask the models to stream. The models and the clients are in other processes.
func BenchmarkDeltas(b *testing.B) {
	for name, c := range map[string]struct{ serves, follows, deltas bool }{
		"runner alone":     {},
		"unwatched":        {serves: true},
		"records watched":  {serves: true, follows: true},
		"deltas and these": {serves: true, follows: true, deltas: true},
	} {
		b.Run(name, func(b *testing.B) {
			models := process.Start(b, process.Command(b, "models"))
			url, _ := models.Line()
			var spent time.Duration
			for n := 0; b.Loop(); n++ {
				spent += watchedRound(b, url, c.serves, c.follows, c.deltas)
			}
			b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// watchedRound executes the runs, and returns the CPU time that this process used.
func watchedRound(b *testing.B, models string, serves, follows, deltas bool) time.Duration {
	b.StopTimer()
	defer b.StartTimer()
	b.Setenv("OPENAI_API_KEY", "test")
	agent := actors.NewAgent("agent", openai.New("m", openai.WithBaseURL(models)))
	ended := make(chan string, watchedRuns)
	o := Options{Addr: "127.0.0.1:0", Store: memstore.New(), Runner: runner.Options{Limit: watchedRuns, Grace: -1, Observe: func(e runner.Notice) {
		if e.Type == runner.NoticeClosed {
			ended <- string(e.Status)
		}
	}}}
	ready := make(chan string, 1)
	o.Ready = func(url string) { ready <- url }
	var r *runner.Runner
	register := func(of *runner.Runner) error {
		r = of
		runner.Register(r, agent)
		return nil
	}
	ctx, cancel := context.WithCancel(b.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	if serves {
		serving.Go(func() { _ = Serve(ctx, o, register) })
		url := <-ready
		if follows {
			followers := process.Start(b, process.Command(b, "follow", url, fmt.Sprint(deltas)))
			defer followers.Wait()
			for range watchedRuns {
				followers.Await("connected")
			}
		}
	} else {
		of, err := runner.New(o.Store, o.Runner)
		require.NoError(b, err)
		require.NoError(b, register(of))
		serving.Go(func() { _ = of.Serve(ctx) })
	}
	before := processorTime(b)
	for n := range watchedRuns {
		_, err := r.Start(b.Context(), "agent", fmt.Sprint("run-", n), json.RawMessage(`{"text": "Go on."}`), runner.StartOptions{})
		require.NoError(b, err)
	}
	for range watchedRuns {
		require.Equal(b, "completed", <-ended)
	}
	return processorTime(b) - before
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
