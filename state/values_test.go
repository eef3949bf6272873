package state_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// store is a way to write and read values.
type store struct {
	name string
	put  func(ctx context.Context, key, v string) error
	get  func(ctx context.Context, key string) (string, bool, error)
	kind record.Kind
}

var stores = []store{
	{"value", func(ctx context.Context, key, v string) error { return state.Put(ctx, key, v) }, state.Get[string], record.KindValue},
}

// sees checks the value that ctx sees under the key. An empty want means that there is no value.
func (s store) sees(ctx context.Context, t testing.TB, where, want string) {
	t.Helper()
	got, ok, err := s.get(ctx, "key")
	if err != nil || ok != (want != "") || got != want {
		t.Errorf("%s sees %q, %v, %v; want %q", where, got, ok, err, want)
	}
}

func (s store) puts(ctx context.Context, t testing.TB, v string) {
	t.Helper()
	if err := s.put(ctx, "key", v); err != nil {
		t.Error(err)
	}
}

func eachStore(t *testing.T, f func(t *testing.T, s store)) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) { testkit.Bubble(t, func(t *testing.T) { f(t, s) }) })
	}
}

func TestValueIsVisibleInsideAndBelowAtOnceAndElsewhereOnCompletion(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		st, root := testkit.Run(t)
		leaf := testkit.Tool(t, "leaf", once, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "a call below", "new")
			return "out", nil
		})
		branch := testkit.Tool(t, "middle", once, func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, leaf) })
		out, err := testkit.Call(root, testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "the writer before", "")
			s.puts(ctx, t, "old")
			s.puts(ctx, t, "new")
			s.sees(ctx, t, "the writer", "new")
			s.sees(root, t, "the root", "")
			_, err := group(ctx, "all", func(ctx context.Context) (string, error) {
				s.sees(ctx, t, "a branch", "new")
				return "", nil
			})
			require.NoError(t, err)
			assert.Empty(t, kinds(t, st, s.kind), "records of it")
			return testkit.Call(ctx, branch)
		}))
		testkit.Completed(t, out, err)
		s.sees(root, t, "the root afterwards", "new")
		s.sees(st.Context(t.Context()), t, "another context", "new")
		_, _ = testkit.Call(root, testkit.Tool(t, "reader", once, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "another call", "new")
			return "out", nil
		}))
		records := kinds(t, st, s.kind)
		assert.Len(t, records, 2, "records")
		for _, r := range records {
			assert.Equal(t, "writer", r.Address.String(), "address")
			assert.Equal(t, "key", r.Name, "name")
		}
	})
}

func TestValueWrittenOutsideEveryCallIsThereForEveryoneAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		st, root := testkit.Run(t)
		s.puts(root, t, "root")
		s.sees(root, t, "the root", "root")
		_, _ = testkit.Call(root, testkit.Tool(t, "reader", once, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "a call", "root")
			s.puts(root, t, "changed")
			s.sees(ctx, t, "a call under way", "changed")
			return "out", nil
		}))
		assert.Len(t, kinds(t, st, s.kind), 2, "records")
	})
}

// TestValueOfABranchIsThereForEveryoneOnceItCompletes checks that a branch is treated like a call:
// everyone sees the values it wrote once it has completed.
func TestValueOfABranchIsThereForEveryoneOnceItCompletes(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		_, root := testkit.Run(t)
		out, err := testkit.Call(root, testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			_, err := group(ctx, "all", func(ctx context.Context) (string, error) {
				s.puts(ctx, t, "v")
				s.sees(ctx, t, "the branch", "v")
				s.sees(root, t, "the root", "")
				return "", nil
			}, func(ctx context.Context) (string, error) {
				s.sees(ctx, t, "another branch", "v")
				return "", nil
			})
			s.sees(ctx, t, "the attempt", "v")
			s.sees(root, t, "the root", "v")
			return "out", err
		}))
		testkit.Completed(t, out, err)
		s.sees(root, t, "the root afterwards", "v")
	})
}

func TestSiblingsDoNotSeeEachOthersValuesBeforeCompletion(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		_, root := testkit.Run(t)
		written, read := make(chan struct{}), make(chan struct{})
		writer := testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "v")
			close(written)
			<-read
			return "out", nil
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = testkit.Call(root, writer)
		}()
		_, _ = testkit.Call(root, testkit.Tool(t, "reader", once, func(ctx context.Context, _ string) (string, error) {
			<-written
			s.sees(ctx, t, "a sibling", "")
			close(read)
			<-done
			s.sees(ctx, t, "a sibling afterwards", "v")
			return "out", nil
		}))
	})
}

func TestParentSeesTheValueOfAChildThatCompleted(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		_, root := testkit.Run(t)
		child := testkit.Tool(t, "child", once, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "the child", "parent's")
			s.puts(ctx, t, "child's")
			return "out", nil
		})
		out, err := testkit.Call(root, testkit.Tool(t, "parent", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "parent's")
			out, err := testkit.Call(ctx, child)
			s.sees(ctx, t, "the parent", "child's") // the later value wins
			return out, err
		}))
		testkit.Completed(t, out, err)
		s.sees(root, t, "the root", "child's")
	})
}

func TestFailedAttemptsLeaveNoValues(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		st, root := testkit.Run(t)
		out, err := testkit.Call(root, testkit.Tool(t, "writer", steady, testkit.Attempts(func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "failed")
			return "", errFlaky
		}, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "the next attempt", "")
			return "out", nil
		})))
		testkit.Completed(t, out, err)
		s.sees(root, t, "the root", "")

		_, err = testkit.Call(root, testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "failed for good")
			return "", errBoom
		}))
		assert.ErrorIs(t, err, errBoom)
		_, err = testkit.Call(root, testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "panicked")
			panic(errBoom)
		}))
		assert.ErrorIs(t, err, core.ErrPanic)
		_, err = testkit.Call(root, testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "refused")
			return "out", nil
		}).Ensure(func(context.Context, string, string) error { return errBoom }))
		assert.ErrorIs(t, err, core.ErrCondition)
		s.sees(root, t, "the root", "")
		assert.Empty(t, kinds(t, st, s.kind), "records")
	})
}

func TestAbandonedAttemptsLeaveNoValues(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		_, root := testkit.Run(t)
		_, err := testkit.Call(root, testkit.Tool(t, "writer", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "in time")
			<-time.After(time.Minute)
			assert.ErrorIs(t, s.put(ctx, "key", "late"), core.ErrAttemptOver)
			return "out", nil
		}))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		<-time.After(time.Hour)
		s.sees(root, t, "the root", "")
	})
}

func TestInterruptedAttemptsLeaveNoValues(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		st, root := testkit.Run(t)
		_, err := testkit.Call(root, testkit.Tool(t, "writer", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "v")
			st.Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}))
		testkit.Interrupted(t, err, record.InterruptUser)
		s.sees(root, t, "the root", "")
	})
}

func TestValueOfACompletedChildOutlivesTheFailureOfItsParent(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		_, root := testkit.Run(t)
		child := testkit.Tool(t, "child", once, func(ctx context.Context, _ string) (string, error) {
			s.puts(ctx, t, "child's")
			return "out", nil
		})
		_, err := testkit.Call(root, testkit.Tool(t, "parent", once, func(ctx context.Context, _ string) (string, error) {
			_, _ = testkit.Call(ctx, child)
			return "", errBoom
		}))
		assert.ErrorIs(t, err, errBoom)
		s.sees(root, t, "the root", "child's")
	})
}

func TestValueOfAPreconditionIsSeenByTheHandler(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		_, root := testkit.Run(t)
		out, err := testkit.Call(root, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
			s.sees(ctx, t, "the handler", "v")
			return "out", nil
		}).Require(func(ctx context.Context, _ string) error { return s.put(ctx, "key", "v") }))
		testkit.Completed(t, out, err)
	})
}

func TestValueIsACopy(t *testing.T) {
	_, root := testkit.Run(t)
	m := map[string][]int{"a": {1}}
	if err := state.Put(root, "map", m); err != nil {
		t.Fatal(err)
	}
	m["a"][0] = 2
	got, _, err := state.Get[map[string][]int](root, "map")
	if err != nil || got["a"][0] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	got["a"][0] = 3
	again, _, _ := state.Get[map[string][]int](root, "map")
	assert.Equal(t, 1, again["a"][0], "again")
}

func TestWrongValuesAreErrorsThatNameTheKey(t *testing.T) {
	type bad struct{ Hook func() }
	_, root := testkit.Run(t)
	says := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
	says(state.Put(root, "", 1), "key", "empty")
	says(state.Put(root, "hooks", bad{func() {}}), "hooks", "Hook")
	if err := state.Put(root, "number", 7); err != nil {
		t.Fatal(err)
	}
	_, ok, err := state.Get[[]string](root, "number")
	says(err, `"number"`)
	assert.True(t, ok, "there")
	_, ok, err = state.Get[string](root, "missing")
	if ok || err != nil {
		t.Error(ok, err)
	}
}

func TestZeroValueIsAValue(t *testing.T) {
	_, root := testkit.Run(t)
	if err := state.Put(root, "zero", 0); err != nil {
		t.Fatal(err)
	}
	v, ok, err := state.Get[int](root, "zero")
	if v != 0 || !ok || err != nil {
		t.Error(v, ok, err)
	}
}
