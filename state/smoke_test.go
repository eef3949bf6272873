package state_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

type pub struct{ n int }

func (p *pub) Publish(core.Record) { p.n++ }

func def(t testing.TB, h func(context.Context, int) (int, error)) *core.Definition[int, int] {
	d, err := core.NewDefinition(core.Spec{Kind: core.KindTool, Name: "tool"}, h)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSmoke(t *testing.T) {
	st := state.New()
	n := 0
	d := def(t, func(ctx context.Context, in int) (int, error) {
		if n++; n < 3 {
			return 0, core.Retryable(errors.New("boom"))
		}
		return in, nil
	})
	out, err := d.Event().WithRetry(core.RetryConfig{InitialDelay: time.Millisecond}).Execute(st.Context(t.Context()), 4)
	fmt.Println(out, err)
	st.Close()
	for _, r := range st.Records() {
		fmt.Println(r.Seq, r.Kind, r.Address, r.Status, r.Attempt, r.WillRetry, r.Delay, r.Err, r.Reason)
	}
}

func BenchmarkAlone(b *testing.B) {
	b.ReportAllocs()
	d := def(b, func(ctx context.Context, in int) (int, error) { return in, nil })
	ctx := context.Background()
	for b.Loop() {
		d.Event().Execute(ctx, 1)
	}
}

func BenchmarkRun(b *testing.B) {
	b.ReportAllocs()
	d := def(b, func(ctx context.Context, in int) (int, error) { return in, nil })
	st := state.New(state.WithPublisher(&pub{}))
	ctx := st.Context(context.Background())
	for b.Loop() {
		d.Event().Execute(ctx, 1)
	}
}

func BenchmarkTwoFailures(b *testing.B) {
	b.ReportAllocs()
	boom := core.Retryable(errors.New("boom"))
	n := 0
	d := def(b, func(ctx context.Context, in int) (int, error) {
		if n++; n%3 != 0 {
			return 0, boom
		}
		return in, nil
	})
	st := state.New(state.WithPublisher(&pub{}), state.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	ctx := st.Context(context.Background())
	for b.Loop() {
		d.Event().Execute(ctx, 1)
	}
}

func BenchmarkTimeout(b *testing.B) {
	b.ReportAllocs()
	d := def(b, func(ctx context.Context, in int) (int, error) {
		select {
		case <-ctx.Done():
		default:
		}
		return in, nil
	})
	for _, in := range []bool{false, true} {
		b.Run(fmt.Sprint("run=", in), func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			if in {
				st := state.New(state.WithPublisher(&pub{}))
				ctx = st.Context(context.Background())
			}
			e := d.Event().WithRetry(core.RetryConfig{AttemptTimeout: time.Second})
			for b.Loop() {
				e.Execute(ctx, 1)
			}
		})
	}
}
