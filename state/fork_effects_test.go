package state_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A payee is a service with idempotency keys: for a key that it knows, it returns the old receipt,
// even if the payment was refunded.
type payee struct {
	t        *testing.T
	keyless  bool // ignores the keys
	payments []*paid
}

// paid is one payment.
type paid struct {
	key, run string // of the call that made it
	purpose  string
	refunds  []string // the runs that undid it
}

func (p *payee) pay(ctx context.Context, purpose string) (receipt int, err error) {
	run := state.From(ctx).RunID()
	var key string
	if !p.keyless {
		if key, err = core.IdempotencyKey(ctx); err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(p.payments, func(known *paid) bool { return known.key == key }); i >= 0 {
			assert.Empty(p.t, p.payments[i].refunds, "%s got the receipt of a payment that was refunded", run)
			return i, nil
		}
	}
	p.payments = append(p.payments, &paid{key: key, run: run, purpose: purpose})
	return len(p.payments) - 1, nil
}

func (p *payee) refund(ctx context.Context, receipt int) {
	run, one := state.From(ctx).RunID(), p.payments[receipt]
	assert.Equal(p.t, one.run, run, "the run that undoes a payment is not the one that made it")
	assert.Empty(p.t, one.refunds, "the payment is undone twice")
	one.refunds = append(one.refunds, run)
}

// standing returns how many payments for the purpose were not refunded.
func (p *payee) standing(purpose string) (n int) {
	for _, one := range p.payments {
		if one.purpose == purpose && len(one.refunds) == 0 {
			n++
		}
	}
	return n
}

// seller is a program that pays for two things and then ships them.
type seller struct {
	payee
	store snapshot.Store
	fails bool // shipping fails
}

func newSeller(t *testing.T) *seller { return &seller{payee: payee{t: t}, store: memstore.New()} }

// run opens the run and executes the program.
func (s *seller) run(runID string, options ...state.Option) error {
	pay := testkit.Define(s.t, core.Spec{Kind: record.KindTool, Name: "pay"}, func(ctx context.Context, purpose string) (int, error) {
		return s.pay(ctx, purpose)
	}).Compensate(func(ctx context.Context, _ string, receipt int) error {
		s.refund(ctx, receipt)
		return nil
	})
	ship := testkit.Define(s.t, core.Spec{Kind: record.KindTool, Name: "ship"}, func(context.Context, int) (string, error) {
		if s.fails {
			return "", core.Permanent(errors.New("sold out"))
		}
		return "shipped", nil
	})
	buy := testkit.Define(s.t, core.Spec{Kind: record.KindAgent, Name: "buy"}, func(ctx context.Context, purpose string) (int, error) {
		return pay.Event().Execute(ctx, purpose)
	})
	order := testkit.Define(s.t, core.Spec{Kind: record.KindAgent, Name: "order"}, func(ctx context.Context, _ int) (string, error) {
		if _, err := pay.Event().Execute(ctx, "book"); err != nil {
			return "", err
		}
		if _, err := buy.Event().Execute(ctx, "pen"); err != nil {
			return "", err
		}
		return ship.Event().Execute(ctx, 1)
	})
	st, err := state.Open(s.t.Context(), s.store, runID, append(options, state.WithCompensations(pay))...)
	require.NoError(s.t, err)
	_, err = order.Event().Execute(st.Context(s.t.Context()), 1)
	require.NoError(s.t, st.Close())
	return err
}

// fork forks a run, and lets the fork make calls with effects again, since the tests are about the
// keys and compensations of these calls.
func (s *seller) fork(runID, at, newID string, o state.ForkOptions) error {
	o.Effects = state.RepeatEffects
	return state.Fork(s.t.Context(), s.store, runID, testkit.Address(s.t, at), newID, o)
}

func TestForkCompensatesOnlyWhatItMadeItself(t *testing.T) {
	s := newSeller(t)
	require.NoError(t, s.run("parent"))
	for _, id := range []string{"one", "two"} { // both forks fail; the parent has completed
		require.NoError(t, s.fork("parent", "order/ship", id, state.ForkOptions{}))
		s.fails = true
		testkit.Failed(t, s.run(id), record.ReasonPermanent)
		s.fails = false
	}
	assert.Equal(t, 1, s.standing("book"))
	assert.Equal(t, 1, s.standing("pen"))

	require.NoError(t, s.fork("parent", "order/buy/pay", "three", state.ForkOptions{NewKeys: true}))
	s.fails = true
	testkit.Failed(t, s.run("three"), record.ReasonPermanent)
	assert.Equal(t, 1, s.standing("pen"), "the fork has undone its own payment, and not that of its parent")
	assert.Len(t, s.payments, 3)
	assert.Equal(t, []string{"three"}, s.payments[2].refunds)
}

func TestForkThatUsesTheKeysOfItsParentDoesNotUndoTheParentsEffects(t *testing.T) {
	s := newSeller(t)
	require.NoError(t, s.run("parent"))
	require.NoError(t, s.fork("parent", "order", "fork", state.ForkOptions{}))
	s.fails = true
	testkit.Failed(t, s.run("fork"), record.ReasonPermanent)
	assert.Len(t, s.payments, 2, "the fork got the receipts of its parent")
	assert.Equal(t, 1, s.standing("book"))

	require.NoError(t, s.fork("parent", "order", "keyless", state.ForkOptions{}))
	s.keyless = true
	testkit.Failed(t, s.run("keyless"), record.ReasonPermanent)
	assert.Len(t, s.payments, 4, "a tool that ignores the key makes its effect again")
	assert.Equal(t, 1, s.standing("book"), "the fork undoes the effects that it made")
}

func TestForkThatWouldKeepACompensatedCallIsRefused(t *testing.T) {
	s := newSeller(t)
	s.fails = true
	testkit.Failed(t, s.run("parent"), record.ReasonPermanent)
	require.Zero(t, s.standing("book")+s.standing("pen"))
	for at, named := range map[string]string{
		"order/ship": "order/pay, order/buy/pay; fork at order/pay or", "order/buy": "order/pay; fork at order/pay or", "order/buy/pay": "order/pay; fork at order/pay or",
	} {
		err := s.fork("parent", at, "fork", state.ForkOptions{})
		require.ErrorIs(t, err, state.ErrCompensated, at)
		require.ErrorContains(t, err, named)
		_, err = s.store.Load(t.Context(), "fork")
		require.ErrorIs(t, err, snapshot.ErrNotFound, "no fork is created")
	}
	require.NoError(t, s.fork("parent", "order/pay", "fork", state.ForkOptions{}))
	s.fails = false
	require.NoError(t, s.run("fork"))
	assert.Equal(t, 1, s.standing("book"))
	assert.Equal(t, 1, s.standing("pen"))
}

func TestCallThatIsMadeAgainAfterItsCompensationHasANewKey(t *testing.T) {
	s := newSeller(t)
	for range 3 {
		s.fails = true
		testkit.Failed(t, s.run("run", state.WithRerunFailed()), record.ReasonPermanent)
	}
	s.fails = false
	require.NoError(t, s.run("run", state.WithRerunFailed()))
	assert.Len(t, s.payments, 8)
	assert.Equal(t, 1, s.standing("book"))
	assert.Equal(t, 1, s.standing("pen"))
}

func TestForkOfAForkKeepsTheKeysOfTheOldestRun(t *testing.T) {
	s := newSeller(t)
	require.NoError(t, s.run("a"))
	require.NoError(t, s.fork("a", "order/buy", "b", state.ForkOptions{}))
	require.NoError(t, s.store.Delete(t.Context(), "a"))
	require.NoError(t, s.run("b"))
	require.NoError(t, s.fork("b", "order/pay", "c", state.ForkOptions{}))
	require.NoError(t, s.store.Delete(t.Context(), "b"))
	require.NoError(t, s.run("c"))
	assert.Len(t, s.payments, 2, "only the payments of the deleted run exist")

	require.NoError(t, s.fork("c", "order/pay", "d", state.ForkOptions{NewKeys: true}))
	require.NoError(t, s.run("d"))
	assert.Len(t, s.payments, 4)
}

// TestForksDoNoHarm makes random families of runs. The runs complete, fail and are compensated, are
// tried again, are forked, and are deleted. The payee checks that no payment is undone twice or by
// a run that did not make it, and that no run gets the receipt of a refunded payment.
func TestForksDoNoHarm(t *testing.T) {
	seeds := testkit.Seeds(200)
	if testing.Short() {
		seeds = 30
	}
	places := []string{"order", "order/pay", "order/buy", "order/buy/pay", "order/ship"}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 22))
			s := newSeller(t)
			// Only the newest run of a family continues: two runs with the same keys would share
			// their effects.
			newest := "run-0"
			s.fails = rng.IntN(2) == 0
			err := s.run(newest)
			for n := 1; n < 12; n++ {
				s.fails = rng.IntN(2) == 0
				if err != nil && rng.IntN(2) == 0 {
					err = s.run(newest, state.WithRerunFailed())
				} else if id := fmt.Sprint("run-", n); s.fork(newest, places[rng.IntN(len(places))], id, state.ForkOptions{}) == nil {
					if rng.IntN(3) == 0 {
						require.NoError(t, s.store.Delete(t.Context(), newest))
					}
					newest = id
					err = s.run(newest)
				}
				for _, purpose := range []string{"book", "pen"} {
					standing := s.standing(purpose)
					assert.LessOrEqual(t, standing, 1, "the %s is paid under two keys", purpose)
					if err == nil {
						assert.Equal(t, 1, standing, "%s has shipped, and the %s is not paid", newest, purpose)
					}
				}
			}
		})
	}
}

// A fork keeps the outcome of a call that failed in doubt. The fork therefore has nothing to decide
// about that call, and knows the call's effect only once.
func TestAForkKeepsACallThatFailedInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		store := memstore.New()
		pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true, InDoubt: core.InDoubtFail}, testkit.Fail(io.ErrUnexpectedEOF))
		agent := testkit.Agent(t, "agent", steady, func(ctx context.Context, _ string) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				out, err := testkit.Call(ctx, pay)
				return out, core.Retryable(err)
			}
			return testkit.Call(ctx, testkit.Tool(t, "apologize", once, testkit.Succeed))
		})
		st, err := state.Open(t.Context(), store, "paying")
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), agent)
		testkit.Completed(t, out, err)
		require.NoError(t, st.Close())

		at := testkit.Address(t, "agent@2/apologize")
		after, err := state.EffectsAfter(t.Context(), store, "paying", at, state.ForkOptions{})
		require.NoError(t, err)
		assert.Empty(t, after)
		require.NoError(t, state.Fork(t.Context(), store, "paying", at, "forked", state.ForkOptions{}))
	})
}
