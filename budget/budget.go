package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Options configure a [Budget].
type Options struct {
	// Name is that of the budget, in errors and in its storage. Required.
	Name string

	// Limit is what may be used. A field that is zero is not limited; one must be
	// set.
	Limit Amount

	// For says what each has the budget for itself. Defaults to [Run].
	For Key

	// Daily makes the limit one for each day, which begins at midnight in
	// Location. Location defaults to UTC.
	Daily    bool
	Location *time.Location

	// Price returns what the usage of a model costs, and false if that is not
	// known; a call is then refused. Required if Limit.Cost is set and the service
	// does not tell the cost (record.Usage.Cost) itself. [Prices.Of] is one. The
	// costs are added to the usage of the attempt, and so are in its record.
	Price func(model string, u core.Usage) (cost float64, known bool)

	// EstimateTokens returns how many tokens of input and output a call will use, from
	// its encoded input, which must not be changed. Defaults to 0.3 for each byte as
	// input, and actors.Options.MaxTokens, if the request has it, as output.
	EstimateTokens func(input []byte) (in, out int)

	// Storage keeps what was used. Defaults to one in memory: a budget of a run then
	// begins with what the records of the run say that was used, and any other
	// begins anew with the process.
	Storage Storage
}

// A Key says who has a budget: it returns the key of an account from the ID and the
// tags of a run, and false if the calls of the run are not limited.
type Key func(runID string, tags []string) (key string, ok bool)

// Run gives each run a budget of its own. Calls outside a run are not limited.
func Run(runID string, _ []string) (string, bool) { return runID, runID != "" }

// All has all calls share the budget.
func All(string, []string) (string, bool) { return "all", true }

// Tag gives the runs that have the same tag with the prefix a budget, such as
// "tenant:". Runs without such a tag are not limited.
func Tag(prefix string) Key {
	return func(_ string, tags []string) (string, bool) {
		for _, tag := range tags {
			if strings.HasPrefix(tag, prefix) {
				return tag, true
			}
		}
		return "", false
	}
}

// Thread gives each conversation of package conversation a budget: all runs that are
// turns of it.
func Thread(runID string, tags []string) (string, bool) { return Tag("conversation:")(runID, tags) }

// A Budget bounds what calls use. It is for many goroutines. Make one with [New].
type Budget struct {
	o Options

	mu     sync.Mutex
	seeded map[string]bool // accounts of runs whose records were looked at
}

// New panics if an option is out of range.
func New(o Options) *Budget {
	must := func(ok bool, problem string, values ...any) {
		if !ok {
			panic("budget: Options." + fmt.Sprintf(problem, values...))
		}
	}
	must(core.CheckName(o.Name) == nil, "Name is %q; want 1 to 128 bytes of printable text", o.Name)
	if err := o.Limit.check("Options.Limit"); err != nil {
		panic(err.Error())
	}
	must(!o.Limit.IsZero(), "Limit is zero, which limits nothing; set one of Tokens, Cost, Calls and Time")
	if o.For == nil {
		o.For = Run
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.EstimateTokens == nil {
		o.EstimateTokens = estimate
	}
	if o.Storage == nil {
		o.Storage = NewMemory()
	}
	return &Budget{o: o, seeded: make(map[string]bool)}
}

// Interceptor returns what counts the calls that it is around, and refuses those
// that the budget does not allow.
func (b *Budget) Interceptor() core.Interceptor { return core.Interceptor{Attempt: b.attempt} }

// account returns the name of the account of a key at present.
func (b *Budget) account(key string) string {
	account := b.o.Name + "/" + key
	if b.o.Daily {
		account += "/" + time.Now().In(b.o.Location).Format(time.DateOnly)
	}
	return account
}

func (b *Budget) attempt(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
	key, ok := b.o.For(call.RunID, call.Tags)
	if !ok {
		return next(ctx)
	}
	account := b.account(key)
	if err := b.seed(ctx, account, call); err != nil {
		return err
	}
	reserved, err := b.estimate(call)
	if err != nil {
		return err
	}
	left, err := b.reserve(ctx, key, account, reserved)
	if err != nil {
		return err
	}
	if b.o.Limit.Time > 0 {
		limited, cancel := context.WithTimeout(ctx, left.Time)
		defer cancel()
		return b.make(ctx, limited, call, next, account, reserved)
	}
	return b.make(ctx, ctx, call, next, account, reserved)
}

// make makes the attempt, and puts what it has used in the place of what was
// reserved, also if the handler panics or ends its goroutine.
func (b *Budget) make(ctx, limited context.Context, call *core.CallInfo, next func(context.Context) error, account string, reserved Amount) (err error) {
	began, returned := time.Now(), false
	defer func() {
		estimated := reserved
		estimated.Time = time.Since(began)
		used, unpriced := b.used(call, estimated, returned && isRefused(err))
		_, stored := b.o.Storage.Add(context.WithoutCancel(ctx), account, used.Minus(reserved))
		if stored != nil { // the reservation stays
			call.Log(slog.LevelWarn, fmt.Sprintf("budget %q: %v is not on account: %v", b.o.Name, used, stored), nil)
		}
		if err == nil {
			err = unpriced
		}
	}()
	err = next(limited)
	returned = true
	return err
}

// isRefused reports whether the service did nothing for a request: the others that
// failed may have been paid for.
func isRefused(err error) bool {
	switch record.Classify(err) {
	case record.ClassRateLimit, record.ClassClient, record.ClassTooEarly:
		return true
	}
	return false
}

// used returns what the attempt has used. If the service did not say so, the estimate
// has to do.
func (b *Budget) used(call *core.CallInfo, estimated Amount, refused bool) (Amount, error) {
	took := estimated.Time
	if !call.Made() { // by an interceptor inside
		return Amount{}, nil
	}
	u := call.Usage()
	switch {
	case u.IsZero() && refused:
		return Amount{Calls: 1, Time: took}, nil
	case u.IsZero():
		return estimated, nil
	}
	var err error
	if u.Cost == 0 && b.o.Price != nil {
		if u.Cost, err = b.price(call.Name, u); err == nil {
			call.AddUsage(core.Usage{Cost: u.Cost})
		}
	}
	return Amount{Tokens: int64(u.TotalTokens()), Cost: u.Cost, Calls: 1, Time: took}, err
}

// estimate returns what an attempt is going to use, as far as that is known before.
// Time is counted when it has passed.
func (b *Budget) estimate(call *core.CallInfo) (Amount, error) {
	a := Amount{Calls: 1}
	if b.o.Limit.Tokens == 0 && b.o.Limit.Cost == 0 {
		return a, nil
	}
	input, err := call.Input()
	if err != nil {
		return a, err
	}
	in, out := b.o.EstimateTokens(input)
	u := core.Usage{InputTokens: max(0, in), OutputTokens: max(0, out)}
	a.Tokens = int64(u.TotalTokens())
	if b.o.Price != nil {
		a.Cost, err = b.price(call.Name, u)
	}
	return a, err
}

// estimate is the default of Options.EstimateTokens.
func estimate(input []byte) (in, out int) {
	var request struct {
		Options struct {
			MaxTokens int `json:"max_tokens"`
		} `json:"options"`
	}
	_ = record.Decode(input, &request) // another input has no such limit
	return len(input) * 3 / 10, request.Options.MaxTokens
}

func (b *Budget) price(model string, u core.Usage) (float64, error) {
	cost, known := b.o.Price(model, u)
	switch {
	case !known:
		return 0, core.Permanent(fmt.Errorf("budget %q: there is no price for the model %q; Options.Price has to know it", b.o.Name, model))
	case cost < 0 || math.IsNaN(cost) || math.IsInf(cost, 0):
		return 0, core.Permanent(fmt.Errorf("budget %q: Options.Price returned %v for the model %q; a price must be 0 or more, and finite", b.o.Name, cost, model))
	}
	return cost, nil
}

// reserve puts the amount on account, and returns what is left without it. The error
// says which limit does not allow that.
func (b *Budget) reserve(ctx context.Context, key, account string, amount Amount) (left Amount, err error) {
	limit, err := b.limit(ctx, account)
	if err != nil {
		return left, err
	}
	sum, err := b.add(ctx, account, amount)
	if err != nil {
		return left, err
	}
	problem := sum.exceeded(limit)
	if problem == "" && limit.Time > 0 && sum.Time >= limit.Time {
		problem = fmt.Sprintf("%v of %v", sum.Time.Round(time.Millisecond), limit.Time)
	}
	if problem == "" {
		return limit.Minus(sum), nil
	}
	if _, err := b.add(context.WithoutCancel(ctx), account, Amount{}.Minus(amount)); err != nil {
		return left, err
	}
	return left, fmt.Errorf("%w: the call would use %s of %q for %q", core.ErrBudget, problem, b.o.Name, key)
}

// limit returns the limit of an account with what it was raised by.
func (b *Budget) limit(ctx context.Context, account string) (Amount, error) {
	more, err := b.add(ctx, account+raised, Amount{})
	if err != nil {
		return Amount{}, err
	}
	limit := b.o.Limit
	for _, field := range [...]struct{ is, add *int64 }{{&limit.Tokens, &more.Tokens}, {&limit.Calls, &more.Calls}, {(*int64)(&limit.Time), (*int64)(&more.Time)}} {
		if *field.is > 0 { // what is not limited cannot be raised
			*field.is += *field.add
		}
	}
	if limit.Cost > 0 {
		limit.Cost += more.Cost
	}
	return limit, nil
}

// raised is the end of the name of the account that has by how much another one was
// raised.
const raised = "/raised"

func (b *Budget) add(ctx context.Context, account string, a Amount) (Amount, error) {
	sum, err := b.o.Storage.Add(ctx, account, a)
	if err != nil {
		return sum, fmt.Errorf("budget %q: %w", b.o.Name, err)
	}
	return sum, nil
}

// seed puts on account what the records say that a run has used, if nothing is on
// account yet.
func (b *Budget) seed(ctx context.Context, account string, call *core.CallInfo) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seeded[account] {
		return nil
	}
	sum, err := b.add(ctx, account, Amount{})
	if err != nil {
		return err
	}
	if key, _ := b.o.For(call.RunID, nil); sum.IsZero() && !b.o.Daily && key == call.RunID && key != "" {
		if _, err := b.add(ctx, account, restored(call.RunCounts())); err != nil {
			return err
		}
	}
	if len(b.seeded) >= maxSeeded {
		clear(b.seeded) // they are looked at again, and have something on account
	}
	b.seeded[account] = true
	return nil
}

const maxSeeded = 10_000

// restored returns what a run has used according to its records.
func restored(n record.Counts) Amount {
	return Amount{Tokens: int64(n.Usage.TotalTokens()), Cost: n.Usage.Cost, Calls: int64(n.LLMs.Calls() - n.LLMs.Running)}
}

var errOutside = errors.New("budget: the context is not that of a run with this budget")

// Left returns what is left for the run that ctx belongs to, or for what it shares
// the budget with. Fields that are not limited are zero; below zero, the limit was
// exceeded. What calls under way have reserved is not left. An agent that is told
// must read it in a step, since it changes: actors.WithInstructionsFunc does.
func (b *Budget) Left(ctx context.Context) (Amount, error) {
	s := core.ScopeOf(ctx)
	if s == nil {
		return Amount{}, errOutside
	}
	key, ok := b.o.For(s.RunID(), s.Tags())
	if !ok {
		return Amount{}, errOutside
	}
	return b.LeftOf(ctx, key)
}

// LeftOf returns what is left for a key, such as a run ID or a tag, as
// [Budget.Left].
func (b *Budget) LeftOf(ctx context.Context, key string) (Amount, error) {
	account := b.account(key)
	limit, err := b.limit(ctx, account)
	if err != nil {
		return Amount{}, err
	}
	sum, err := b.add(ctx, account, Amount{})
	if err != nil {
		return Amount{}, err
	}
	left := limit.Minus(sum)
	if limit.Tokens == 0 {
		left.Tokens = 0
	}
	if limit.Cost == 0 {
		left.Cost = 0
	}
	if limit.Calls == 0 {
		left.Calls = 0
	}
	if limit.Time == 0 {
		left.Time = 0
	}
	return left, nil
}

// Raise raises the limit for a key, such as a run ID or a tag, by an amount; a
// daily one for today. A run that has failed with [core.ErrBudget] goes on when it is
// retried.
func (b *Budget) Raise(ctx context.Context, key string, by Amount) error {
	if err := by.check("the amount to raise by"); err != nil {
		return err
	}
	_, err := b.add(ctx, b.account(key)+raised, by)
	return err
}
