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
	// Name is the name of the budget, used in errors and in the storage. Required.
	Name string

	// Limit is the amount that may be used. At least one field must be set; zero fields
	// are not limited.
	Limit Amount

	// For determines which calls share an account. Defaults to [Run].
	For Key

	// Daily makes the limit apply to each day, which begins at midnight in Location.
	// Location defaults to UTC.
	Daily    bool
	Location *time.Location

	// Price returns the cost of the given usage of a model. It returns false if the price is
	// unknown; the call is then refused. [Prices.Of] can be used as Price. The cost is added to the
	// usage in the record of the attempt. If the service has reported a cost (record.Usage.Cost),
	// that cost counts instead. Price is required if Limit.Cost is set.
	Price func(model string, u core.Usage) (cost float64, known bool)

	// EstimateTokens returns the estimated number of input and output tokens of a call.
	// The argument is its encoded input, which must not be modified. By default, the
	// input is estimated at 0.3 tokens per byte, and the output at the request's
	// actors.ModelOptions.MaxTokens, or at 0 if that is not set.
	EstimateTokens func(input []byte) (in, out int)

	// Storage stores the amounts used. Defaults to a new [Memory], which is never pruned. With a
	// [Memory], the budget of a run starts with the amount in the run's records, and all other
	// budgets start from zero in each process. The records contain the number of LLM calls, but not
	// the number of attempts of each call: a limit on calls therefore allows one more call for each
	// attempt that failed before the process ended. With any other Storage, the limit is exact.
	// Workers that share runs must also share the Storage. Otherwise, each worker counts only what
	// it has seen of a run.
	Storage Storage
}

// A Key selects the account to which the calls of a run are charged. It receives the run's ID and
// tags and returns the key of the account, or false if the run's calls are not limited.
type Key func(runID string, tags []string) (key string, ok bool)

// Run is a [Key] that gives each run its own account. Calls outside any run are not limited.
func Run(runID string, _ []string) (string, bool) { return runID, runID != "" }

// All is a [Key] that charges all calls to a single account.
func All(string, []string) (string, bool) { return "all", true }

// Tag returns a [Key] that has an account for each tag with the given prefix, such as "tenant:".
// Runs without such a tag are not limited.
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

// Thread is a [Key] that gives each conversation (see package conversation) its own account,
// which all turns of the conversation share.
func Thread(runID string, tags []string) (string, bool) { return Tag("conversation:")(runID, tags) }

// A Budget limits what calls consume. It is safe for concurrent use. Create one with
// [New].
type Budget struct {
	o Options

	mu      sync.Mutex
	seeded  map[string]bool          // accounts whose initial amount was read from records
	seeding map[string]chan struct{} // accounts being seeded; each channel is closed afterwards
}

// New returns a budget. It panics if an option is out of range.
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
	must(o.Limit.Cost == 0 || o.Price != nil, "Price is nil, so Limit.Cost would limit nothing; want a function such as KnownPrices().Of")
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
	return &Budget{o: o, seeded: make(map[string]bool), seeding: make(map[string]chan struct{})}
}

// Interceptor returns an interceptor that counts the calls it wraps and refuses calls
// that the budget does not allow.
func (b *Budget) Interceptor() core.Interceptor { return core.Interceptor{Attempt: b.attempt} }

// account returns the name of the current account for a key.
func (b *Budget) account(key string) string {
	account := b.o.Name + "/" + escapeKey.Replace(key)
	if b.o.Daily {
		account += "/" + time.Now().In(b.o.Location).Format(time.DateOnly)
	}
	return account
}

// escapeKey escapes a key so that it cannot form the name of another account, such as one with
// raisedSuffix.
var escapeKey = strings.NewReplacer("%", "%25", "/", "%2F")

func (b *Budget) attempt(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
	key, ok := b.o.For(call.RunID, call.Tags)
	if !ok {
		return next(ctx)
	}
	account := b.account(key)
	if err := b.seed(ctx, account, call.RunID, call.RunCounts); err != nil {
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
		return b.run(ctx, limited, call, next, account, reserved)
	}
	return b.run(ctx, ctx, call, next, account, reserved)
}

// run makes the attempt and replaces the reserved amount with the amount used, even if the handler
// panics or calls runtime.Goexit.
func (b *Budget) run(ctx, limited context.Context, call *core.CallInfo, next func(context.Context) error, account string, reserved Amount) (err error) {
	began := time.Now()
	defer func() {
		estimated := reserved
		estimated.Time = time.Since(began)
		used, unpriced := b.used(call, estimated)
		stored := b.adjust(ctx, account, used.Minus(reserved))
		if stored != nil { // the reservation remains
			call.Log(slog.LevelWarn, fmt.Sprintf("budget %q: cannot book %v: %v", b.o.Name, used, stored), nil)
		}
		if err == nil {
			err = unpriced
		}
	}()
	return next(limited)
}

// isRefused reports whether the service rejected the request without processing it. err is the
// handler's error, or nil. A request that failed in another way may have been charged.
func isRefused(err error) bool {
	switch record.Classify(err) {
	case record.ClassRateLimit, record.ClassClient, record.ClassTooEarly:
		return true
	}
	return false
}

// used returns the amount that the attempt used. If the service did not report its
// usage, it returns the estimate.
func (b *Budget) used(call *core.CallInfo, estimated Amount) (Amount, error) {
	took := estimated.Time
	if !call.Made() { // an inner interceptor answered or refused before the service was asked
		return Amount{}, nil
	}
	u := call.Usage()
	switch {
	case u.IsZero() && isRefused(call.Err()):
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

// estimate returns the amount that an attempt is expected to use. The time is not estimated, but
// counted afterwards.
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

// estimate is the default for Options.EstimateTokens.
func estimate(input []byte) (in, out int) {
	var request struct {
		Options struct {
			MaxTokens int `json:"max_tokens"`
		} `json:"options"`
	}
	_ = record.Decode(input, &request) // other inputs have no such limit
	return len(input) * 3 / 10, request.Options.MaxTokens
}

func (b *Budget) price(model string, u core.Usage) (float64, error) {
	cost, known := b.o.Price(model, u)
	switch {
	case !known:
		return 0, core.Permanent(fmt.Errorf("budget %q: no price for model %q; add it to Options.Price", b.o.Name, model))
	case cost < 0 || math.IsNaN(cost) || math.IsInf(cost, 0):
		return 0, core.Permanent(fmt.Errorf("budget %q: Options.Price returned %v for model %q; want a finite price of 0 or more", b.o.Name, cost, model))
	}
	return cost, nil
}

// reserve books the amount and returns what is then left of the limit. If a limit does
// not allow the amount, it returns an error that names the limit.
func (b *Budget) reserve(ctx context.Context, key, account string, amount Amount) (left Amount, err error) {
	limit, err := b.limit(ctx, account)
	if err != nil {
		return left, err
	}
	used, err := b.add(ctx, account, Amount{}) // check first: others must not see a refused amount
	if err != nil {
		return left, err
	}
	problem := amount.shortage(used, limit)
	if problem == "" {
		sum, err := b.add(ctx, account, amount)
		if err != nil {
			return left, err
		}
		if problem = amount.shortage(sum.Minus(amount), limit); problem == "" {
			return limit.Minus(sum), nil
		}
		if err := b.adjust(ctx, account, Amount{}.Minus(amount)); err != nil { // another call was faster
			return left, fmt.Errorf("budget %q: %w", b.o.Name, err)
		}
	}
	return left, fmt.Errorf("%w: %q for %q: %s", core.ErrBudget, b.o.Name, key, problem)
}

// limit returns the limit of an account, including all raises.
func (b *Budget) limit(ctx context.Context, account string) (Amount, error) {
	raise, err := b.add(ctx, account+raisedSuffix, Amount{})
	if err != nil {
		return Amount{}, err
	}
	limit := b.o.Limit
	for _, field := range [...]struct{ limit, raise *int64 }{{&limit.Tokens, &raise.Tokens}, {&limit.Calls, &raise.Calls}, {(*int64)(&limit.Time), (*int64)(&raise.Time)}} {
		if *field.limit > 0 { // otherwise there is no limit to raise
			*field.limit = addInt64(*field.limit, *field.raise)
		}
	}
	if limit.Cost > 0 {
		limit.Cost += raise.Cost
	}
	return limit, nil
}

// raisedSuffix is the suffix of the account that stores by how much another account's
// limit was raised.
const raisedSuffix = "/raised"

func (b *Budget) add(ctx context.Context, account string, a Amount) (Amount, error) {
	sum, err := b.o.Storage.Add(ctx, account, a)
	if err != nil {
		return sum, fmt.Errorf("budget %q: %w", b.o.Name, err)
	}
	return sum, nil
}

// adjustTimeout limits how long the outcome of an attempt waits for the storage.
const adjustTimeout = 10 * time.Second

// adjust adds a to an account, even if ctx is done. It takes at most half of the time that is left
// to the attempt, so that the attempt does not time out in the meantime.
func (b *Budget) adjust(ctx context.Context, account string, a Amount) error {
	timeout := adjustTimeout
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) > 0 {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	_, err := b.o.Storage.Add(ctx, account, a)
	return err
}

// seed books the amount that a run has used according to its records, if nothing has
// been booked yet.
func (b *Budget) seed(ctx context.Context, account, runID string, counts func() record.Counts) error {
	done, err := b.beginSeeding(ctx, account)
	if done == nil {
		return err
	}
	isSeeded := false
	defer func() { done(isSeeded) }()
	sum, err := b.add(ctx, account, Amount{})
	if err != nil {
		return err
	}
	if key, _ := b.o.For(runID, nil); sum.IsZero() && !b.o.Daily && key == runID && key != "" {
		if _, err := b.add(ctx, account, amountUsed(counts())); err != nil {
			return err
		}
	}
	isSeeded = true
	return nil
}

// beginSeeding waits until no other call is seeding the account. It returns a function that must be
// called with the result, or nil if the account has already been seeded or ctx ends. Accounts do
// not wait for each other.
func (b *Budget) beginSeeding(ctx context.Context, account string) (done func(isSeeded bool), err error) {
	for {
		b.mu.Lock()
		isSeeded, other := b.seeded[account], b.seeding[account]
		if !isSeeded && other == nil {
			b.seeding[account] = make(chan struct{})
		}
		b.mu.Unlock()
		switch {
		case isSeeded:
			return nil, nil
		case other == nil:
			return func(isSeeded bool) { b.endSeeding(account, isSeeded) }, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("budget %q: %w", b.o.Name, context.Cause(ctx))
		}
	}
}

func (b *Budget) endSeeding(account string, isSeeded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.seeding[account])
	delete(b.seeding, account)
	if !isSeeded {
		return
	}
	if len(b.seeded) >= maxSeeded {
		clear(b.seeded) // forget all accounts; they are checked again and found not to be zero
	}
	b.seeded[account] = true
}

const maxSeeded = 10_000

// amountUsed returns the amount that a run has used according to its records.
func amountUsed(n record.Counts) Amount {
	return Amount{Tokens: int64(n.Usage.TotalTokens()), Cost: n.Usage.Cost, Calls: int64(n.LLMs.Calls() - n.LLMs.Running)}
}

var errOutside = errors.New("budget: the context does not belong to a run with this budget")

// Left returns what is left in the account of the run that ctx belongs to. Fields without
// a limit are zero; a negative field means that the limit was exceeded. Amounts reserved
// by calls in progress count as used. An agent that uses the result must read it in a
// step, since it changes over time; actors.WithInstructionsFunc does this.
func (b *Budget) Left(ctx context.Context) (Amount, error) {
	s := core.ScopeOf(ctx)
	if s == nil {
		return Amount{}, errOutside
	}
	key, ok := b.o.For(s.RunID(), s.Tags())
	if !ok {
		return Amount{}, errOutside
	}
	if err := b.seed(ctx, b.account(key), s.RunID(), s.RunCounts); err != nil {
		return Amount{}, err
	}
	return b.LeftOf(ctx, key)
}

// LeftOf is like [Budget.Left], but for the account with the given key, such as a run ID or a tag.
// With a [Memory], the records of a resumed run do not count until this process has made the run's
// first counted call, or has called Left for the run.
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

// Raise raises the limit of the account with the given key, such as a run ID or a tag. A daily
// limit is raised for the current day only. A run that failed with [core.ErrBudget] continues if it
// is retried afterwards. Raise returns an error if a field of by is negative.
func (b *Budget) Raise(ctx context.Context, key string, by Amount) error {
	if err := by.check("Raise: by"); err != nil {
		return err
	}
	_, err := b.add(ctx, b.account(key)+raisedSuffix, by)
	return err
}
