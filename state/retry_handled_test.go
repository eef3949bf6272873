package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A station has tools that fail for good while broken is set. It keeps track of the calls that
// complete.
type station struct {
	broken bool
	done   []string
}

type shipment struct {
	V string `json:"v"`
}

// brittle returns a tool that works unless the station is broken.
func (s *station) brittle(name string, opts ...actors.Option) actors.Tool[shipment, string] {
	return decorators.Tool(name, "", func(_ context.Context, in shipment) (string, error) {
		if s.broken {
			return "", core.Permanent(errors.New("out of order"))
		}
		s.done = append(s.done, name+" "+in.V)
		return name, nil
	}, opts...)
}

// sound returns a tool that always works.
func (s *station) sound(name string) actors.Tool[shipment, string] {
	return decorators.Tool(name, "", func(_ context.Context, in shipment) (string, error) {
		s.done = append(s.done, name+" "+in.V)
		return name, nil
	})
}

// numbered returns what a station has done if n calls of a tool have completed.
func numbered(tool string, n int) (done []string) {
	for i := range n {
		done = append(done, fmt.Sprint(tool, " ", i))
	}
	return done
}

// failures is an error whose text says little.
type failures []error

func (f failures) Error() string   { return fmt.Sprintf("%d calls failed: out of order", len(f)) }
func (f failures) Unwrap() []error { return f }

// TestRetryTriesOnlyTheFailuresThatEndedTheRun checks which failed calls a retry makes again, for
// programs that handle failures in several ways. After the retries, the run has completed, and its
// calls have completed in the given order.
func TestRetryTriesOnlyTheFailuresThatEndedTheRun(t *testing.T) {
	in := shipment{"1"}
	s := new(station)
	primary, last, sound := s.brittle("primary"), s.brittle("last"), s.sound("backup")
	halfBrittle := decorators.Tool("half", "", func(_ context.Context, in shipment) (string, error) {
		if s.broken && in.V == "1" {
			return "", core.Permanent(errors.New("out of order"))
		}
		s.done = append(s.done, "half "+in.V)
		return "half", nil
	})
	ignore := func(_ string, err error) error {
		if core.IsSuspension(err) {
			return err
		}
		return nil
	}
	for name, c := range map[string]struct {
		program func(ctx context.Context) (string, error)
		retries int // 1 if 0
		done    []string
	}{
		"a fallback took the place of a call": {
			program: func(ctx context.Context) (string, error) {
				v, err := primary.Call(ctx, in)
				if err != nil {
					v, err = sound.Call(ctx, in)
				}
				if err != nil {
					return "", err
				}
				return last.Call(ctx, shipment{v})
			},
			done: []string{"backup 1", "last backup"},
		},
		"a fallback took the place of a group": {
			program: func(ctx context.Context) (string, error) {
				all, err := actors.Map(ctx, actors.Group{Name: "g"}, primary, []shipment{{"1"}, {"2"}})
				v := fmt.Sprint(all)
				if err != nil && !core.IsSuspension(err) {
					v, err = sound.Call(ctx, in)
				}
				if err != nil {
					return "", err
				}
				return last.Call(ctx, shipment{v})
			},
			done: []string{"backup 1", "last backup"},
		},
		"a fallback took the place of an agent": {
			program: func(ctx context.Context) (string, error) {
				v, err := decorators.Agent("inner", "", primary.Call).Call(ctx, in)
				if err != nil && !core.IsSuspension(err) {
					v, err = sound.Call(ctx, in)
				}
				if err != nil {
					return "", err
				}
				return last.Call(ctx, shipment{v})
			},
			done: []string{"backup 1", "last backup"},
		},
		"a branch handled the failure, and the group completed": {
			program: func(ctx context.Context) (string, error) {
				all, err := actors.Parallel(ctx, actors.Group{Name: "g"}, func(ctx context.Context) (string, error) {
					v, err := primary.Call(ctx, in)
					if err != nil {
						v = "without"
					}
					return v, ignore(v, err)
				})
				if err != nil {
					return "", err
				}
				return last.Call(ctx, shipment{all[0]})
			},
			done: []string{"last without"},
		},
		"a loop over a group handled the failure of a branch": {
			program: func(ctx context.Context) (string, error) {
				var all []string
				for out, err := range actors.MapSeq(ctx, actors.Group{Name: "g", CollectAll: true, Workers: 1}, halfBrittle, []shipment{{"1"}, {"2"}}) {
					if core.IsSuspension(err) {
						return "", err
					}
					v := "without"
					if err == nil {
						if v, err = sound.Call(ctx, shipment{out.Output}); err != nil {
							return "", err
						}
					}
					all = append(all, v)
				}
				return last.Call(ctx, shipment{fmt.Sprint(all)})
			},
			done: []string{"half 2", "backup half", "last [without backup]"},
		},
		"a loop of its own tried the call again": {
			program: func(ctx context.Context) (string, error) {
				for range 2 {
					if v, err := last.Call(ctx, in); err == nil || core.IsSuspension(err) {
						return v, err
					}
				}
				return last.Call(ctx, in)
			},
			done: []string{"last 1"},
		},
		"a clean-up followed": {
			program: func(ctx context.Context) (string, error) {
				v, err := primary.Call(ctx, in)
				if err == nil || core.IsSuspension(err) {
					return v, err
				}
				if _, err := sound.Call(ctx, shipment{"report"}); err != nil {
					return "", err
				}
				return "", err
			},
			done: []string{"backup report", "primary 1"},
		},
		"a clean-up followed, and the error has another form": {
			program: func(ctx context.Context) (string, error) {
				v, err := primary.Call(ctx, in)
				if err == nil || core.IsSuspension(err) {
					return v, err
				}
				if _, err := sound.Call(ctx, shipment{"report"}); err != nil {
					return "", err
				}
				return "", fmt.Errorf("the parcel is not sent (%v)", err) //nolint:errorlint // the point
			},
			done: []string{"backup report", "primary 1"},
		},
		"several failures, joined": {
			program: func(ctx context.Context) (string, error) {
				v, err := primary.Call(ctx, in)
				_, err2 := sound.Call(ctx, in)
				w, err3 := last.Call(ctx, in)
				return v + w, errors.Join(err, err2, err3)
			},
			done: []string{"backup 1", "primary 1", "last 1"},
		},
		"so many failures, joined, that the recorded text is cut": {
			program: func(ctx context.Context) (string, error) {
				var all error
				for i := range 300 {
					_, err := last.Call(ctx, shipment{fmt.Sprint(i)})
					all = errors.Join(all, err)
				}
				return "", all
			},
			done: numbered("last", 300),
		},
		"a clean-up followed, and the recorded text is cut before it names the call": {
			program: func(ctx context.Context) (string, error) {
				v, err := primary.Call(ctx, in)
				if err == nil || core.IsSuspension(err) {
					return v, err
				}
				if _, err := sound.Call(ctx, shipment{"report"}); err != nil {
					return "", err
				}
				return "", fmt.Errorf("out of order: the plan %s failed: %v", strings.Repeat("go on, ", 1000), err) //nolint:errorlint // the point
			},
			done: []string{"backup report", "primary 1"},
		},
		"several failures, of which the text names none": {
			program: func(ctx context.Context) (string, error) {
				v, err := primary.Call(ctx, in)
				w, err2 := last.Call(ctx, in)
				_, err3 := sound.Call(ctx, in)
				if err := errors.Join(err, err2, err3); err == nil || core.IsSuspension(err) {
					return v + w, err
				}
				return "", failures{err, err2}
			},
			done: []string{"backup 1", "primary 1", "last 1"},
		},
		"several failures, of which the first is returned": {
			program: func(ctx context.Context) (string, error) {
				var first error
				for i := range 3 {
					if _, err := last.Call(ctx, shipment{fmt.Sprint(i)}); err != nil && first == nil {
						first = err
					}
				}
				return "", first
			},
			retries: 2,
			done:    []string{"last 0", "last 2", "last 1"},
		},
		"a group that collects its failures": {
			program: func(ctx context.Context) (string, error) {
				_, err := actors.Map(ctx, actors.Group{Name: "g", CollectAll: true, Workers: 1}, primary, []shipment{{"1"}, {"2"}})
				return "", err
			},
			done: []string{"primary 1", "primary 2"},
		},
	} {
		for _, shape := range []string{"agent", "run"} {
			if shape == "run" && name != "a fallback took the place of a call" && name != "a fallback took the place of a group" &&
				name != "a fallback took the place of an agent" && name != "a loop of its own tried the call again" {
				continue // these programs depend on an error returned by a surrounding call
			}
			t.Run(name+", in the handler of the "+shape, func(t *testing.T) {
				*s = station{broken: true}
				agent := decorators.Agent("ag", "", func(ctx context.Context, _ shipment) (string, error) { return c.program(ctx) })
				store := memstore.New()
				open := func() error {
					st, err := state.Open(t.Context(), store, runID)
					require.NoError(t, err)
					if ctx := st.Context(t.Context()); shape == "agent" {
						_, err = agent.Call(ctx, in)
					} else {
						_, err = c.program(ctx)
					}
					require.NoError(t, st.Close())
					return err
				}
				require.ErrorContains(t, open(), "out of order")
				s.broken = false
				var err error
				for range max(c.retries, 1) {
					_, err = state.Retry(t.Context(), store, runID)
					require.NoError(t, err)
					err = open()
				}
				require.NoError(t, err)
				assert.Equal(t, c.done, s.done)
				require.NoError(t, open(), "it completes in the same way when it is opened again")
				assert.Equal(t, c.done, s.done)
			})
		}
	}
}

// TestRetryOfARandomProgramMakesOnlyTheLastCallAgain runs random programs that handle all failures
// of their calls and then fail in a last step. When the run is retried, only this step is made
// again. The retry may be cut anywhere.
func TestRetryOfARandomProgramMakesOnlyTheLastCallAgain(t *testing.T) {
	for seed := range testkit.Seeds(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tree := randomTree(rand.New(rand.NewPCG(seed, 23)), 2)
				broken := true
				run := func(store snapshot.Store, e *effects) (string, error) {
					st, err := state.Open(t.Context(), store, runID)
					require.NoError(t, err)
					out, err := testkit.Call(st.Context(t.Context()), testkit.Agent(t, "root", once, func(ctx context.Context, _ string) (string, error) {
						out, err := e.call(t, ctx, tree)
						if core.IsSuspension(err) {
							return "", err
						}
						return core.Step(ctx, "end", func(context.Context) (string, error) {
							if broken {
								return "", core.Permanent(errBoom)
							}
							return fmt.Sprint(out, err), nil
						})
					}))
					require.NoError(t, st.Close())
					return out, err
				}
				store := memstore.New()
				_, err := run(store, newEffects())
				require.ErrorIs(t, err, errBoom)
				before := len(testkit.LoadRun(t, store, runID).Records)
				_, err = state.Retry(t.Context(), store, runID)
				require.NoError(t, err)
				broken = false
				again := newEffects()
				want, err := run(store, again)
				require.NoError(t, err)
				require.Empty(t, again.ran)
				records := testkit.LoadRun(t, store, runID).Records
				for n := before + 1; n < len(records); n++ {
					again := newEffects()
					got, err := run(&tape{records: slices.Clip(records[:n])}, again)
					require.NoError(t, err, "cut after record %d", n)
					require.Equal(t, want, got, "cut after record %d", n)
					require.Empty(t, again.ran, "cut after record %d", n)
				}
			})
		})
	}
}
