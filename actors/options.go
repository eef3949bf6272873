package actors

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/record"
)

// An Option configures an actor when it is made.
type Option func(*options)

// WithRetry sets the actor's own retry configuration, which takes precedence over
// those of the run. The constructor panics if it is invalid.
func WithRetry(c core.RetryConfig) Option {
	return func(o *options) { o.spec.Retry = &c }
}

// WithAttemptTimeout bounds each attempt of the actor's calls: the context of the
// attempt ends, and a handler that does not return within 50 ms is abandoned. It
// takes precedence over the AttemptTimeout of every retry configuration except that
// of core.ExecutionEvent.WithRetry. The default is 10 minutes for an LLM, which
// core.NoTimeout removes, and none for other actors.
func WithAttemptTimeout(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 && d != core.NoTimeout {
			panic(fmt.Sprintf("actors: WithAttemptTimeout(%v): want more than 0, or core.NoTimeout", d))
		}
		o.spec.AttemptTimeout = d
	}
}

// WithInDoubt sets what happens to a call in doubt, which may or may not have taken effect: its process
// ended or its run was interrupted while its handler ran, or the handler returned [core.InDoubt].
// Defaults to [core.InDoubtRetry], and to [core.InDoubtAsk] for an irreversible actor. For calls that
// must not happen twice and have no idempotency key, [core.InDoubtFail] makes the call fail with
// core.ErrInDoubt, and a model is told that it may have taken effect; [core.InDoubtAsk] pauses the run
// with a question that is answered with a state.InDoubtAnswer. Both also apply to an attempt that timed
// out, panicked or lost the response of a service, instead of a retry: [core.InDoubtPolicy] has the
// whole list. [Tool.CompensateInDoubt] undoes possible effects. For an agent, WithInDoubt has no effect:
// agents are always entered again.
func WithInDoubt(d core.InDoubtPolicy) Option {
	return func(o *options) { o.spec.InDoubt = d }
}

// WithIrreversible keeps the effect of a call, such as a payment, from being made twice. A call
// that begins for the first time in a run looks for effects of this actor in earlier attempts of
// the calls around it. In a fork it also looks for effects that the parent runs had after the place
// of the fork. Effects are calls that completed, and calls in doubt, which began and have no outcome
// on record. Each of them can be taken over once:
//
//	found                                            the call
//	completed at the same place, with equal input    takes the effect over: it completes
//	                                                 with that output, and nothing runs
//	completed elsewhere, with equal input            takes it over if the actor says what the
//	                                                 identity of an input is; otherwise asks
//	in doubt, with equal input                       asks
//	at the same place, with another input            asks
//	none, or all are taken over                      is made
//
// The place is the scope without the numbers of attempts; [WithIdentity] or a [core.Identifier]
// defines the identity of an input. Calls of one attempt never take over effects of each other: two
// equal payments are two. An effect that was compensated no longer exists. An effect that no call
// has taken over when the call around it ends is listed in the state.Report and recorded in a
// warning.
//
// "Asks" means [core.InDoubtAsk] with the effect in the question, which is answered with
// state.InDoubtTakeOver, InDoubtRunAgain, InDoubtCompleted or InDoubtFailed. [WithInDoubt]
// replaces asking: with InDoubtFail the call fails, and with InDoubtRetry it is made. It also
// applies to a call that is itself in doubt: its process ended while its handler ran, its attempt
// timed out, or the response of a service was lost (see [core.InDoubtPolicy]). For such a call, an
// irreversible actor asks by default, too. A handler that knows that nothing has happened returns
// [core.Retryable] or [core.Permanent]. For a service that honors idempotency keys,
// WithInDoubt(core.InDoubtRetry) makes such attempts again without asking, with the same key.
//
// The output of the actor has to be stored: WithIrreversible excludes WithNoStore. Outside
// a run it has no effect.
func WithIrreversible() Option {
	return func(o *options) { o.spec.Irreversible = true }
}

// WithInterceptors calls the interceptors around the attempts of the actor's calls,
// inside those of the run. The first interceptor is the outermost. [WithCache] adds
// one, too, in the order of the options. Circuit breakers, retry budgets, budgets and
// rate limits are interceptors: WithInterceptors(b.Interceptor()).
func WithInterceptors(i ...core.Interceptor) Option {
	return func(o *options) { o.spec.Interceptors = append(slices.Clip(o.spec.Interceptors), i...) }
}

// WithCache answers calls of the actor with the outputs of earlier calls, of this run or another,
// that completed with the same input and version at most ttl ago; 0 means without a limit. Change
// the version when the behavior of the actor changes. See [cache.Cache.Interceptor].
func WithCache(c *cache.Cache, version string, ttl time.Duration) Option {
	return func(o *options) {
		if c == nil {
			panic(fmt.Sprintf("actors: %q: WithCache got nil", o.spec.Name))
		}
		o.cached = true
		WithInterceptors(c.Interceptor(version, ttl))(o)
	}
}

// WithNoStore keeps outputs out of records and artifacts, for outputs that must not be stored.
// A completed call then runs again whenever its run is resumed; an agent is entered again, and
// its own calls are recalled. If the output is the same as before, the calls after it must be
// the recorded ones. If it differs, other calls may be made, but the call around them must not
// end before it has made every recorded call that has an outcome.
func WithNoStore() Option {
	return func(o *options) { o.spec.NoStore = true }
}

// WithIdentity sets the identity of inputs to the result of f. By default it is
// the whole input without zero fields, and for an LLM the conversation without
// instructions. When a run is resumed, a call that was recorded with another
// identity is refused (see [core.DivergenceError]); what f leaves out, such as
// a time or a trace, may differ. The result must be a value that
// [record.Encode] accepts: if it is not, or f panics, the call fails before
// any of its functions runs.
//
// The constructor panics if f is nil, or not a function of the input type of
// the actor.
func WithIdentity[In any](f func(In) any) Option {
	return func(o *options) {
		if f == nil {
			panic("actors: WithIdentity got nil")
		}
		o.identity = f
	}
}

// SettingOption returns an option that carries a setting of another package,
// such as the API key of openai.New, through the options of an actor. The
// constructor that knows the setting removes it with [SplitSettings]; any other
// panics with the name of the option.
func SettingOption[T any](name string, setting T) Option {
	return func(o *options) { o.setting, o.settingName = setting, name }
}

// SplitSettings returns the settings of type T that [SettingOption] put into
// opts, and the other options, both in the order of opts.
func SplitSettings[T any](opts []Option) (settings []T, rest []Option) {
	for _, option := range opts {
		var o options
		if option != nil {
			option(&o)
		}
		if setting, ok := o.setting.(T); ok {
			settings = append(settings, setting)
		} else {
			rest = append(rest, option)
		}
	}
	return settings, rest
}

// options holds the options of a constructor.
type options struct {
	spec core.Spec

	// setting is a setting of another package, and settingName the name of its
	// option.
	setting     any
	settingName string

	// For NewAgent and NewTypedAgent only; agentOnly names the first such option
	// that was used.
	agentOnly      string
	functions      []Function
	toolsFuncs     []func(context.Context) ([]Function, error)
	instructions   instructions
	model          ModelOptions
	maxTurns       int
	maxCorrections int
	workers        int
	stopOnError    bool

	answerByTool bool

	approval *approval // only for NewTool; nil if no approval is needed
	strict   bool      // for tools and typed agents
	cached   bool      // WithCache was used

	identity any // a func(In) any; nil for the default
}

func apply(spec core.Spec, opts []Option) *options {
	o := &options{spec: spec}
	for _, option := range opts {
		if option == nil {
			panic(fmt.Sprintf("actors: %q: an option is nil", spec.Name))
		}
		option(o)
	}
	if o.settingName != "" {
		panic(fmt.Sprintf("actors: %q: %s is not an option of this constructor", spec.Name, o.settingName))
	}
	if o.cached && o.spec.NoStore {
		panic(fmt.Sprintf("actors: %q has WithNoStore, so its output is not kept, and WithCache; use one or the other", spec.Name))
	}
	return o
}

// define returns the definition of every actor except those of NewAgent and
// NewTypedAgent. It panics if the definition is invalid, since that is an error
// in the program.
func define[In, Out any](o *options, handler core.Handler[In, Out]) *core.Definition[In, Out] {
	if o.spec.Kind == record.KindAgent && handler != nil {
		handler = withVoidDeltas(handler)
	}
	return withIdentity(must(core.NewDefinition(o.spec, handler)), o.identity)
}

// applyTyped is apply for every actor except those of NewAgent and
// NewTypedAgent.
func applyTyped(spec core.Spec, opts []Option) *options {
	o := apply(spec, opts)
	if o.agentOnly != "" {
		panic(fmt.Sprintf("actors: %q: %s is an option only of NewAgent and NewTypedAgent", spec.Name, o.agentOnly))
	}
	if o.approval != nil && spec.Kind != record.KindTool {
		panic(fmt.Sprintf("actors: %q: WithApproval is an option only of tools", spec.Name))
	}
	if o.strict && spec.Kind != record.KindTool {
		panic(fmt.Sprintf("actors: %q: WithStrict is an option only of tools and NewTypedAgent", spec.Name))
	}
	return o
}

// withIdentity returns the definition with the identity of its inputs, which is a
// func(In) any, or nil for the default. It panics if different inputs could have
// the same identity.
func withIdentity[In, Out any](d *core.Definition[In, Out], identity any) *core.Definition[In, Out] {
	if identity == nil {
		return must(d, d.Check())
	}
	f, ok := identity.(func(In) any)
	if !ok {
		panicIdentity(d.Spec().Name, identity, f)
	}
	return d.Identify(f)
}

func panicIdentity(name string, got, want any) {
	panic(fmt.Sprintf("actors: %q: WithIdentity got a %T, want a %T for the input of the actor", name, got, want))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// functionName matches the names of functions that OpenAI and Anthropic accept.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// CheckFunctionName returns an error if LLM services refuse the name for a
// function: they accept 1 to 64 letters, digits, underscores and dashes.
func CheckFunctionName(name string) error {
	if functionName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("actors: %q cannot be the name of a function; LLM services allow 1 to 64 letters, digits, underscores and dashes", record.Truncate(name, 80))
}
