package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A bank makes every payment that is requested: it ignores idempotency keys.
type bank struct {
	mu   sync.Mutex // an attempt that was abandoned may still pay
	paid []string
}

// make makes a payment, and returns the receipt.
func (b *bank) make(amount string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid = append(b.paid, amount)
	return receiptOf(len(b.paid), amount)
}

func receiptOf(n int, amount string) string { return fmt.Sprintf("%s#%d", amount, n) }

// amounts returns what was paid, in order.
func (b *bank) amounts() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.paid, " ")
}

// buyer is a program whose agent fails in all attempts but the last. Each attempt makes payments,
// one after the other: "10" is a payment by the agent itself, "a:10" by an agent "a" inside it,
// "10!" a payment that is so slow that the first attempt times out, and "10 20" two payments by
// branches of a group.
type buyer struct {
	*bank
	attempts [][]string
	declares bool               // the actor defines the identity of a payment
	plain    bool               // the actor is not irreversible
	inDoubt  core.InDoubtPolicy // of the payments
}

func (b *buyer) pay(t testing.TB) *core.Definition[string, string] {
	spec := core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: !b.plain, InDoubt: b.inDoubt}
	d := testkit.Define(t, spec, func(ctx context.Context, payment string) (string, error) {
		amount, slow := strings.CutSuffix(payment, "!")
		receipt := b.bank.make(amount)
		if slow && strings.HasPrefix(core.ScopeOf(ctx).Address().String(), "order/") {
			<-time.After(time.Hour)
		}
		return receipt, nil
	})
	if b.declares {
		d = d.Identify(func(payment string) any { return strings.TrimSuffix(payment, "!") })
	}
	return d
}

// order returns the agent, whose output is the list of receipts.
func (b *buyer) order(t testing.TB) *core.Definition[string, string] {
	pay := b.pay(t)
	one := func(ctx context.Context, payment string) (string, error) {
		if inner, amount, nested := strings.Cut(payment, ":"); nested {
			return testkit.Agent(t, inner, core.RetryConfig{}, func(ctx context.Context, _ string) (string, error) {
				return pay.Event().Execute(ctx, amount)
			}).Event().Execute(ctx, "in")
		}
		return pay.Event().Execute(ctx, payment)
	}
	retry := core.RetryConfig{MaxAttempts: max(len(b.attempts), 1), InitialDelay: time.Second, AttemptTimeout: time.Minute}
	return testkit.Agent(t, "order", retry, func(ctx context.Context, _ string) (string, error) {
		attempt := core.ScopeOf(ctx).Attempt()
		var receipts []string
		for _, payment := range b.attempts[attempt] {
			if branches := strings.Fields(payment); len(branches) > 1 {
				var pays []func(context.Context) (string, error)
				for _, payment := range branches {
					pays = append(pays, func(ctx context.Context) (string, error) { return one(ctx, payment) })
				}
				all, err := actors.Parallel(ctx, actors.Group{Name: "all", Workers: 1}, pays...)
				if err != nil {
					return "", err
				}
				receipts = append(receipts, all...)
				continue
			}
			receipt, err := one(ctx, payment)
			if err != nil {
				return "", err
			}
			receipts = append(receipts, receipt)
		}
		if attempt < len(b.attempts)-1 {
			return "", core.Retryable(errors.New("a confirmation is missing"))
		}
		return strings.Join(receipts, " "), nil
	})
}

// inOrder returns a function that gives the decisions in order.
func inOrder(t *testing.T, decisions []state.InDoubtAnswer) func(core.Question) state.InDoubtAnswer {
	return func(q core.Question) (next state.InDoubtAnswer) {
		t.Helper()
		require.NotEmpty(t, decisions, "it asks %s: %s", q.ID, q.Text)
		next, decisions = decisions[0], decisions[1:]
		return next
	}
}

// run opens the run, executes the program, and answers its questions until the program ends.
func (b *buyer) run(t *testing.T, store snapshot.Store, runID string, decide func(core.Question) state.InDoubtAnswer) (out string, report state.Report, asked []string, err error) {
	t.Helper()
	for {
		st, err := state.Open(t.Context(), store, runID)
		require.NoError(t, err)
		out, err = b.order(t).Event().Execute(st.Context(t.Context()), "in")
		require.NoError(t, st.Close())
		testkit.LoadRun(t, store, runID)
		if st.Status() != snapshot.StatusPaused {
			return out, st.Report(), asked, err
		}
		open, err := state.Questions(t.Context(), store, runID)
		require.NoError(t, err)
		for _, q := range open {
			asked = append(asked, q.ID)
			require.NoError(t, state.Answer(t.Context(), store, runID, q.ID, "", decide(q)))
		}
	}
}

var takeOver, runAgain = state.InDoubtTakeOver(), state.InDoubtRunAgain()

// purchase is a program with its expected results.
type purchase struct {
	buyer     buyer
	decisions []state.InDoubtAnswer
	paid      string // the payments that the bank made, in order
	out       string // of the last attempt
	asked     string // the IDs of the questions
	left      string // the effects that are left over
}

// open returns the program with a bank of its own.
func (c *purchase) open() buyer {
	b := c.buyer
	b.bank = new(bank)
	return b
}

// purchases returns a case for each row of the table in the documentation of
// actors.WithIrreversible.
func purchases() map[string]purchase {
	type attempts = [][]string
	return map[string]purchase{
		"the same again":                    {buyer: buyer{attempts: attempts{{"10"}, {"10"}}}, paid: "10", out: "10#1"},
		"in three attempts":                 {buyer: buyer{attempts: attempts{{"10"}, {"10"}, {"10"}}}, paid: "10", out: "10#1"},
		"two equal ones":                    {buyer: buyer{attempts: attempts{{"10", "10"}, {"10", "10"}}}, paid: "10 10", out: "10#1 10#2"},
		"one more":                          {buyer: buyer{attempts: attempts{{"10"}, {"10", "10"}}}, paid: "10 10", out: "10#1 10#2"},
		"one more in the third":             {buyer: buyer{attempts: attempts{{"10"}, {"10"}, {"10", "10"}}}, paid: "10 10", out: "10#1 10#2"},
		"in another order":                  {buyer: buyer{attempts: attempts{{"1", "2"}, {"2", "1"}}}, paid: "1 2", out: "2#2 1#1"},
		"another one after them":            {buyer: buyer{attempts: attempts{{"1", "2"}, {"1", "2", "3"}}}, paid: "1 2 3", out: "1#1 2#2 3#3"},
		"another one first":                 {buyer: buyer{attempts: attempts{{"1"}, {"3", "1"}}}, decisions: []state.InDoubtAnswer{runAgain}, paid: "1 3", out: "3#2 1#1", asked: "order@2/pay?effect:order/pay"},
		"another one instead":               {buyer: buyer{attempts: attempts{{"11"}, {"12"}}}, decisions: []state.InDoubtAnswer{takeOver}, paid: "11", out: "11#1", asked: "order@2/pay?effect:order/pay"},
		"another one instead, made":         {buyer: buyer{attempts: attempts{{"11"}, {"12"}}}, decisions: []state.InDoubtAnswer{runAgain}, paid: "11 12", out: "12#2", asked: "order@2/pay?effect:order/pay", left: "order/pay"},
		"another one, and its own output":   {buyer: buyer{attempts: attempts{{"11"}, {"12"}}}, decisions: []state.InDoubtAnswer{state.InDoubtCompleted("mine")}, paid: "11", out: "mine", asked: "order@2/pay?effect:order/pay"},
		"none":                              {buyer: buyer{attempts: attempts{{"1"}, {}}}, paid: "1", left: "order/pay"},
		"one less":                          {buyer: buyer{attempts: attempts{{"1", "2"}, {"1"}}}, paid: "1 2", out: "1#1", left: "order/pay#2"},
		"none, and again":                   {buyer: buyer{attempts: attempts{{"1"}, {}, {"1"}}}, paid: "1", out: "1#1"},
		"elsewhere":                         {buyer: buyer{attempts: attempts{{"a:1"}, {"1"}}}, decisions: []state.InDoubtAnswer{takeOver}, paid: "1", out: "1#1", asked: "order@2/pay?effect:order/a/pay"},
		"elsewhere, another payment":        {buyer: buyer{attempts: attempts{{"a:1"}, {"b:1", "a:1"}}}, decisions: []state.InDoubtAnswer{runAgain}, paid: "1 1", out: "1#2 1#1", asked: "order@2/b/pay?effect:order/a/pay"},
		"elsewhere, declared":               {buyer: buyer{declares: true, attempts: attempts{{"a:1"}, {"1"}}}, paid: "1", out: "1#1"},
		"elsewhere, another input":          {buyer: buyer{attempts: attempts{{"a:1"}, {"2"}}}, paid: "1 2", out: "2#2", left: "order/a/pay"},
		"branches":                          {buyer: buyer{attempts: attempts{{"1 2"}, {"1 2"}}}, paid: "1 2", out: "1#1 2#2"},
		"one branch more":                   {buyer: buyer{attempts: attempts{{"1 2"}, {"1 2 3"}}}, paid: "1 2 3", out: "1#1 2#2 3#3"},
		"branches in another order":         {buyer: buyer{attempts: attempts{{"1 2"}, {"2 1"}}}, decisions: []state.InDoubtAnswer{takeOver, takeOver}, paid: "1 2", out: "2#2 1#1", asked: "*"},
		"branches in another order, stated": {buyer: buyer{declares: true, attempts: attempts{{"1 2"}, {"2 1"}}}, paid: "1 2", out: "2#2 1#1"},
		"in doubt":                          {buyer: buyer{declares: true, attempts: attempts{{"1!"}, {"1"}}}, decisions: []state.InDoubtAnswer{state.InDoubtCompleted("1#1")}, paid: "1", out: "1#1", asked: "order@2/pay?effect:order/pay"},
		"in doubt, made again":              {buyer: buyer{declares: true, attempts: attempts{{"1!"}, {"1"}, {"1"}}}, decisions: []state.InDoubtAnswer{runAgain}, paid: "1 1", out: "1#2", asked: "order@2/pay?effect:order/pay"},
		"in doubt, with another input":      {buyer: buyer{declares: true, attempts: attempts{{"1!"}, {"2"}}}, decisions: []state.InDoubtAnswer{runAgain}, paid: "1 2", out: "2#2", asked: "order@2/pay?effect:order/pay", left: "order/pay"},
		"it does not ask":                   {buyer: buyer{inDoubt: core.InDoubtRetry, attempts: attempts{{"11"}, {"12"}}}, paid: "11 12", out: "12#2", left: "order/pay"},
		"not irreversible":                  {buyer: buyer{plain: true, attempts: attempts{{"10"}, {"10"}}}, paid: "10 10", out: "10#2"},
	}
}

func TestEffectOfAnEarlierAttemptIsNotMadeAgain(t *testing.T) {
	for name, c := range purchases() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := c.open()
				out, report, asked, err := b.run(t, memstore.New(), "run", inOrder(t, c.decisions))
				require.NoError(t, err)
				assert.Equal(t, c.out, out)
				assert.Equal(t, c.paid, b.amounts())
				if c.asked != "*" {
					assert.Equal(t, c.asked, strings.Join(asked, " "))
				}
				assert.Equal(t, c.left, leftOver(report))
				<-time.After(2 * time.Hour) // until abandoned payments have returned
			})
		})
	}
}

func leftOver(r state.Report) string {
	var left []string
	for _, e := range r.LeftOver {
		left = append(left, e.String())
	}
	return strings.Join(left, " ")
}

// TestEffectIsNotMadeAgainWhereverTheRunWasCut cuts the records of each program at every possible
// point, as if its process had ended there, and resumes the run. It assumes that every payment that
// had begun was made.
func TestEffectIsNotMadeAgainWhereverTheRunWasCut(t *testing.T) {
	for name, c := range purchases() {
		if c.buyer.plain || c.buyer.inDoubt == core.InDoubtRetry {
			continue // these programs do not ask about payments that were cut off
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole, store := c.open(), memstore.New()
				_, _, asked, err := whole.run(t, store, "run", inOrder(t, c.decisions))
				require.NoError(t, err)
				records := testkit.LoadRun(t, store, "run").Records
				for n := 1; n < len(records); n++ {
					if !records[n-1].WillRetry && (c.buyer.attempts[0][0] != "1!" || hasFailed(records[:n])) {
						c.resume(t, records[:n], asked)
					}
				}
				<-time.After(2 * time.Hour) // until abandoned payments have returned
			})
		})
	}
}

// hasFailed reports whether an attempt of the agent has failed. If not, a slow payment is in doubt
// because the process has ended.
func hasFailed(records []record.Record) bool {
	return slices.ContainsFunc(records, func(r record.Record) bool { return r.Name == "order" && r.WillRetry })
}

// resume resumes a run that has only the records in left. Questions get the same answers as in the
// whole run.
func (c *purchase) resume(t *testing.T, left []record.Record, asked []string) {
	t.Helper()
	b, receipts := c.open(), make(map[record.Address]string)
	for i := range left {
		if r := &left[i]; r.Name == "pay" && r.Status == record.StatusStarted {
			receipts[r.Address] = b.bank.make(amountOf(t, r.Detail.Input))
		}
	}
	store := memstore.New()
	cut, err := testkit.Stored(snapshot.StatusRunning, slices.Clone(left)...).Run()
	require.NoError(t, err)
	_, err = store.Create(t.Context(), cut)
	require.NoError(t, err)
	out, report, _, err := b.run(t, store, cut.RunID, func(q core.Question) state.InDoubtAnswer {
		if q.InDoubt.Effect == nil {
			call, _, _ := strings.Cut(q.ID, "?")
			return state.InDoubtCompleted(receipts[testkit.Address(t, call)])
		}
		require.Contains(t, asked, q.ID, "cut after %d records", len(left))
		return c.decisions[slices.Index(asked, q.ID)]
	})
	require.NoError(t, err, "cut after %d records", len(left))
	assert.Equal(t, c.out, out, "cut after %d records", len(left))
	assert.Equal(t, c.paid, b.amounts(), "cut after %d records", len(left))
	assert.Equal(t, c.left, leftOver(report), "cut after %d records", len(left))
}

func amountOf(t *testing.T, input []byte) (amount string) {
	t.Helper()
	require.NoError(t, record.Decode(input, &amount))
	return strings.TrimSuffix(amount, "!")
}
