package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// These tests check the values and artifacts of a resumed run.

func putting(value string) *definition {
	return toolOf("put", tryOnce, func(ctx context.Context) (string, error) { return "", state.Put(ctx, "k", value) })
}

func getting(ctx context.Context) (string, error) {
	v, _, err := state.Get[string](ctx, "k")
	return v, err
}

func TestValueOfACallInAFailedAttemptIsResumed(t *testing.T) {
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		return execute(ctx, agentOf(retryAtOnce, func(ctx context.Context) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				execute(ctx, putting("token"))
				return beBusy(ctx)
			}
			kill()
			return getting(ctx)
		}))
	})
}

func TestValueOfACallInAFailedAttemptOfAToolIsResumed(t *testing.T) {
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		return execute(ctx, toolOf("t", retryAtOnce, func(ctx context.Context) (string, error) {
			switch core.ScopeOf(ctx).Attempt() {
			case 0:
				execute(ctx, putting("token"))
				return beBusy(ctx)
			case 1:
				kill()
				return beBusy(ctx)
			}
			return getting(ctx)
		}))
	})
}

func TestValueOfACallInAPreconditionIsResumed(t *testing.T) {
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			kill()
			return getting(ctx)
		}).Require(func(ctx context.Context, _ string) error {
			_, err := execute(ctx, putting("token"))
			return err
		}))
	})
}

func TestValueOfARecalledCallReplacesTheOlder(t *testing.T) {
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		out, err := execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			state.Put(ctx, "k", "old")
			execute(ctx, putting("new"))
			kill()
			return getting(ctx)
		}))
		after, _ := getting(ctx)
		return fmt.Sprint(out, ", then ", after), err
	})
}

// put returns a precondition that writes a value.
func put(value string) func(context.Context, string) error {
	return func(ctx context.Context, _ string) error { return state.Put(ctx, "k", value) }
}

func TestValueOfAPreconditionIsOlderThanThatOfACallInside(t *testing.T) {
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		out, err := execute(ctx, agentOf(retryAtOnce, func(ctx context.Context) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				execute(ctx, putting("new"))
				return beBusy(ctx)
			}
			kill()
			return getting(ctx)
		}).Require(put("old")))
		after, _ := getting(ctx)
		assert.Equal(t, "new", out)
		return fmt.Sprint(out, ", then ", after), err
	})
}

func TestValueOfACallByAPreconditionIsResumed(t *testing.T) {
	requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
		return execute(ctx, toolOf("t", retryAtOnce, func(ctx context.Context) (string, error) {
			kill()
			return getting(ctx)
		}).Require(func(ctx context.Context, _ string) error {
			_, err := execute(ctx, putting("token"))
			return err
		}))
	})
}

func TestValueOfAPreconditionIsGoneWithItsCall(t *testing.T) {
	for name, ending := range map[string]handler{
		"failed": refuse,
		"interrupted": func(ctx context.Context) (string, error) {
			interrupt(state.From(ctx))
			return "", ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			pay := toolOf("pay", tryOnce, ending).Require(put("token"))
			p := func(ctx context.Context) (string, error) {
				execute(ctx, pay)
				return getting(ctx)
			}
			for range 2 {
				got, err := run(t, s, p)
				require.NoError(t, err)
				assert.Empty(t, got, "other calls do not see the value")
				assert.Empty(t, testkit.LoadRun(t, s, runID).Values())
			}
		})
	}
}

func TestValuesOfBranchesAreResumedInTheirRecordedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 2
		requireSameAfterKill(t, func(ctx context.Context, kill func()) (string, error) {
			return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
				branch := func(i int) handler {
					return func(ctx context.Context) (string, error) {
						if i == slow {
							<-time.After(time.Millisecond)
						}
						return execute(ctx, putting(fmt.Sprint(i)))
					}
				}
				actors.Parallel(ctx, actors.Group{Name: "g"}, branch(1), branch(2))
				kill()
				slow = 1
				return getting(ctx)
			}))
		})
	})
}

// artifacts is a store that counts writes and can refuse reads.
type artifacts struct {
	*filestore.Store
	puts int
	get  func(context.Context) error
}

func newArtifacts(t *testing.T) *artifacts {
	t.Helper()
	s, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	return &artifacts{Store: s, get: func(context.Context) error { return nil }}
}

func (a *artifacts) Put(ctx context.Context, data []byte) (string, error) {
	a.puts++
	return a.Store.Put(ctx, data)
}

func (a *artifacts) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := a.get(ctx); err != nil {
		return nil, err
	}
	return a.Store.Get(ctx, ref)
}

// readingBig returns a program that calls a tool whose output is an artifact. The first time, the
// program is interrupted after that call.
func readingBig() body {
	stop := true
	return func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(ctx context.Context) (string, error) {
			big, err := execute(ctx, toolOf("big", tryOnce, func(context.Context) (string, error) { return strings.Repeat("x", 100<<10), nil }))
			if err == nil && stop {
				stop = false
				interrupt(state.From(ctx))
				err = ctx.Err()
			}
			return fmt.Sprint(len(big)), err
		}))
	}
}

func TestMissingArtifactsDoNotFailARunForGood(t *testing.T) {
	s, p := newArtifacts(t), readingBig()
	run(t, s, p, state.WithArtifacts(s))
	s.get = func(context.Context) error { return errors.New("503") }
	_, err := run(t, s, p, state.WithArtifacts(s))
	require.Error(t, err)
	s.get = func(context.Context) error { return nil }
	out, err := run(t, s, p, state.WithArtifacts(s))
	require.NoError(t, err)
	assert.Equal(t, "102400", out)
}

// A run that stops because artifacts cannot be read still has correct records, so a runner
// continues it by itself.
func TestRunWhoseArtifactsAreOutOfReachStopsBecauseOfTheStore(t *testing.T) {
	s, p := newArtifacts(t), readingBig()
	run(t, s, p, state.WithArtifacts(s))
	s.get = func(context.Context) error { return snapshot.ErrUnavailable }
	_, err := run(t, s, p, state.WithArtifacts(s))
	require.ErrorIs(t, err, snapshot.ErrUnavailable)
	require.ErrorIs(t, err, core.ErrInterrupted)
	info, err := s.Info(t.Context(), runID)
	require.NoError(t, err)
	assert.Equal(t, record.InterruptStore, info.Stop.Reason)
	s.get = func(context.Context) error { return nil }
	out, err := run(t, s, p, state.WithArtifacts(s))
	require.NoError(t, err)
	assert.Equal(t, "102400", out)
}

func TestInterruptEndsTheReadingOfAnArtifact(t *testing.T) {
	s, p := newArtifacts(t), readingBig()
	run(t, s, p, state.WithArtifacts(s))
	_, err := run(t, s, func(ctx context.Context) (string, error) {
		s.get = func(get context.Context) error {
			interrupt(state.From(ctx))
			select {
			case <-get.Done():
				return get.Err()
			case <-time.After(10 * time.Second):
				t.Error("the interrupt did not come through")
				return nil
			}
		}
		return p(ctx)
	}, state.WithArtifacts(s))
	require.ErrorIs(t, err, core.ErrInterrupted)
}

func TestValidateComparesArtifactsAndWritesNone(t *testing.T) {
	s, size := newArtifacts(t), 100<<10
	p := func(ctx context.Context) (string, error) {
		return execute(ctx, agentOf(tryOnce, func(context.Context) (string, error) { return strings.Repeat("x", size), nil }))
	}
	run(t, s, p, state.WithArtifacts(s))
	require.Equal(t, 1, s.puts)
	for _, size = range []int{3, 200 << 10} {
		differences, _ := state.Validate(t.Context(), s, runID, func(ctx context.Context) error {
			_, err := p(ctx)
			return err
		}, state.WithArtifacts(s))
		assert.NotEmpty(t, differences, "%d bytes", size)
	}
	assert.Equal(t, 1, s.puts)
}
