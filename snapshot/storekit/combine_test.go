package storekit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// statements simulates a database that squares numbers, and takes a second for each statement.
type statements struct {
	mu  sync.Mutex
	all [][]int
}

var (
	errRefused = errors.New("refused")
	errGone    = errors.Join(snapshot.ErrUnavailable, errors.New("gone"))
)

// do executes a statement. It refuses the number 13, and fails for 99 as if the database were
// unavailable.
func (s *statements) do(_ context.Context, all []int) ([]int, error) {
	s.mu.Lock()
	s.all = append(s.all, slices.Sorted(slices.Values(all)))
	s.mu.Unlock()
	<-time.After(time.Second)
	switch {
	case slices.Contains(all, 13):
		return nil, errRefused
	case slices.Contains(all, 99):
		return nil, errGone
	}
	squares := make([]int, len(all))
	for i, n := range all {
		squares[i] = n * n
	}
	return squares, nil
}

// askAll asks for the square of the first number and, while the statement for that number is being
// executed, for the squares of all others.
func askAll(t *testing.T, numbers ...int) (*statements, map[int]error) {
	s, wait := new(statements), new(sync.WaitGroup)
	c := &storekit.Combiner[int, int]{Do: s.do, MaxStatements: 1, Gate: new(storekit.Gate)}
	errs := make(map[int]error)
	var mu sync.Mutex
	for i, n := range numbers {
		wait.Go(func() {
			square, err := c.Ask(t.Context(), n)
			if err == nil && square != n*n {
				t.Errorf("%d: got %d", n, square)
			}
			mu.Lock()
			errs[n] = err
			mu.Unlock()
		})
		if i == 0 {
			synctest.Wait()
		}
	}
	wait.Wait()
	return s, errs
}

func TestConcurrentRequestsShareTheNextStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, errs := askAll(t, 1, 2, 3, 4)
		if want := [][]int{{1}, {2, 3, 4}}; !slices.EqualFunc(s.all, want, slices.Equal) {
			t.Errorf("the statements were %v, want %v", s.all, want)
		}
		for n, err := range errs {
			if err != nil {
				t.Errorf("%d: %v", n, err)
			}
		}
	})
}

func TestARefusedRequestDoesNotFailTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, errs := askAll(t, 1, 2, 13, 4)
		if len(s.all) != 5 {
			t.Errorf("the statements were %v, want two, and then a separate one for each request of the second", s.all)
		}
		for n, err := range errs {
			if wrong := n == 13; errors.Is(err, errRefused) != wrong || err != nil != wrong {
				t.Errorf("%d: got %v", n, err)
			}
		}
	})
}

// A statement that may have been executed is not repeated here, because only the callers know
// whether that is safe.
func TestAnUnknownOutcomeIsReturnedToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, errs := askAll(t, 1, 2, 99, 4)
		if len(s.all) != 2 {
			t.Errorf("the statements were %v, want two", s.all)
		}
		for n, err := range errs {
			if errors.Is(err, snapshot.ErrUnavailable) != (n != 1) {
				t.Errorf("%d: got %v", n, err)
			}
		}
	})
}

func TestTheEndOfAContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s statements
		var gate storekit.Gate
		c := &storekit.Combiner[int, int]{Do: s.do, MaxStatements: 1, Gate: &gate}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for range 2 { // ctx ends during the first Ask, before the second
			if _, err := c.Ask(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the cause of the context", err)
			}
		}
		gate.Close()
		if len(s.all) != 1 {
			t.Errorf("the statements were %v, want one", s.all)
		}
	})
}

// A caller that has executed a statement for several callers does not also have to execute the next
// one.
func TestACallerExecutesOneStatementAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s statements
		var wait sync.WaitGroup
		c := &storekit.Combiner[int, int]{Do: s.do, MaxStatements: 1, Gate: new(storekit.Gate)}
		took := make([]time.Duration, 3)
		begun := time.Now()
		for n := range took {
			wait.Go(func() {
				square, err := c.Ask(context.Background(), n) //nolint:usetesting // a context that never ends
				if err != nil || square != n*n {
					t.Errorf("%d: got %d, %v", n, square, err)
				}
				took[n] = time.Since(begun)
			})
			synctest.Wait()
		}
		wait.Wait()
		if want := []time.Duration{time.Second, 2 * time.Second, 2 * time.Second}; !slices.Equal(took, want) {
			t.Errorf("the callers waited for %v, want %v", took, want)
		}
	})
}

// Close waits for the statement that is being executed, and no later statement is begun.
func TestAClosedGateRefusesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s statements
		var gate storekit.Gate
		c := &storekit.Combiner[int, int]{Do: s.do, MaxStatements: 2, Gate: &gate}
		var asking sync.WaitGroup
		asking.Go(func() {
			if square, err := c.Ask(t.Context(), 3); err != nil || square != 9 {
				t.Errorf("before: got %d, %v", square, err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		asking.Go(gate.Close)
		synctest.Wait()
		if _, err := c.Ask(t.Context(), 4); !errors.Is(err, snapshot.ErrClosed) {
			t.Errorf("a request during Close: got %v", err)
		}
		asking.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Close took %v, want 1s", took)
		}
	})
}
