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

// WithRetry sets the actor's own retry configuration. It takes precedence over the run's
// configurations for all actors and for kinds of actors, but not over
// state.WithRetryForActor; see [core.ExecutionEvent.WithRetry]. The constructor panics if
// c is invalid.
func WithRetry(c core.RetryConfig) Option {
	return func(o *options) { o.spec.Retry = &c }
}

// WithAttemptTimeout limits the duration of each attempt of the actor's calls. After d, the
// attempt's context ends, and a handler that does not return within another 50 ms is abandoned. d
// takes precedence over the AttemptTimeout of every retry configuration except one set by
// core.ExecutionEvent.WithRetry. The default for an LLM is 10 minutes, which core.NoTimeout
// removes; other actors have no limit by default.
func WithAttemptTimeout(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 && d != core.NoTimeout {
			panic(fmt.Sprintf("actors: WithAttemptTimeout(%v): want more than 0, or core.NoTimeout", d))
		}
		o.spec.AttemptTimeout = d
	}
}

// WithInDoubt sets how a call in doubt is handled. Such a call may or may not have taken effect:
// the process ended or the run was interrupted while its handler was running, or the handler
// returned [core.InDoubt]. The default is [core.InDoubtRetry], or [core.InDoubtAsk] for an
// irreversible actor.
//
// Two policies are for calls that must not happen twice and have no idempotency key.
// [core.InDoubtFail] makes the call fail with core.ErrInDoubt, and a model is told that the call
// may have taken effect. [core.InDoubtAsk] pauses the run with a question that is answered with a
// state.InDoubtAnswer. Both also apply, instead of a retry, if an attempt timed out, panicked or
// lost the response of a service; [core.InDoubtPolicy] has the complete list.
// [Tool.CompensateInDoubt] undoes possible effects.
//
// WithInDoubt does not apply to agents, which are always entered again: the constructor of an agent
// panics if d does not allow this.
func WithInDoubt(d core.InDoubtPolicy) Option {
	return func(o *options) { o.spec.InDoubt = d }
}

// WithIrreversible keeps an effect, such as a payment, from happening twice. A call that begins for
// the first time in a run looks for effects of its actor in earlier attempts of the surrounding
// calls. In a fork, it also looks for effects in the parent runs after the point of the fork. An
// effect is a call that completed, or a call in doubt, which began but has no recorded outcome.
// Each effect can be taken over once:
//
//	found                                            the call
//	completed at the same place, with equal input    takes the effect over: it completes
//	                                                 with that output, and nothing runs
//	completed elsewhere, with equal input            takes it over if the actor defines the
//	                                                 identity of its inputs; otherwise asks
//	in doubt, with equal input                       asks
//	at the same place, with another input            asks
//	none, or all are taken over                      is made
//
// The place is the scope without attempt numbers. [WithIdentity] or a [core.Identifier] defines the
// identity of an input. Calls of the same attempt never take over each other's effects: two equal
// payments remain two. A compensated effect no longer counts. If no call has taken over an effect
// by the time the surrounding call ends, the effect is listed in the state.Report and recorded in a
// warning.
//
// "Asks" means that the run is paused, as with [core.InDoubtAsk]. The question shows the effect and
// is answered with state.InDoubtTakeOver, InDoubtRunAgain, InDoubtCompleted or InDoubtFailed.
// [WithInDoubt] selects another policy: with InDoubtFail the call fails, and with InDoubtRetry it
// is made. The policy also applies to a call that is itself in doubt, because its process ended
// while its handler was running, its attempt timed out, or the response of a service was lost (see
// [core.InDoubtPolicy]). By default, an irreversible actor asks about such a call as well. A
// handler that knows that nothing has happened should return [core.Retryable] or [core.Permanent].
// For a service that honors idempotency keys, WithInDoubt(core.InDoubtRetry) makes such attempts
// again without asking, with the same key.
//
// WithIrreversible does not apply to agents, which are always entered again: the constructor of an
// agent panics. Use it for the tools through which an agent has its effects.
//
// The actor's output must be stored, so WithIrreversible cannot be combined with WithNoStore.
// Outside a run, WithIrreversible has no effect.
func WithIrreversible() Option {
	return func(o *options) { o.spec.Irreversible = true }
}

// WithInterceptors adds interceptors around the attempts of the actor's calls, inside
// the run's interceptors. The first interceptor is the outermost. [WithCache] also
// adds an interceptor, at its place in the order of the options. Circuit breakers,
// retry budgets, budgets and rate limits are added in this way:
// WithInterceptors(b.Interceptor()).
func WithInterceptors(i ...core.Interceptor) Option {
	return func(o *options) { o.spec.Interceptors = append(slices.Clip(o.spec.Interceptors), i...) }
}

// WithCache answers a call to the actor with the output of an earlier call, in this run or another,
// that completed with the same input and version at most ttl ago; a ttl of 0 means no limit. Change
// the version when the actor's behavior changes. A call that can be compensated is always made. See
// [cache.Cache.Interceptor].
func WithCache(c *cache.Cache, version string, ttl time.Duration) Option {
	return func(o *options) {
		if c == nil {
			panic(fmt.Sprintf("actors: %q: WithCache got nil", o.spec.Name))
		}
		o.cached = true
		WithInterceptors(c.Interceptor(version, ttl))(o)
	}
}

// WithNoStore keeps outputs out of records and artifacts. It is for outputs that must not be
// stored. A completed call then runs again whenever its run is resumed; an agent is entered again,
// and its own calls are recalled. If the new output is the same as before, the calls that follow
// must be the recorded ones. If it differs, other calls may follow, but the surrounding call must
// not end before it has made every recorded call that has an outcome.
func WithNoStore() Option {
	return func(o *options) { o.spec.NoStore = true }
}

// WithIdentity sets the identity of inputs to the result of f. By default, the identity is the
// whole input without zero fields or, for an LLM, the conversation without instructions. When a run
// is resumed, a call is refused if it was recorded with another identity (see
// [core.DivergenceError]). Whatever f leaves out, such as a time or a trace, may differ.
// [record.Encode] must accept the result of f; if it does not, or if f panics, the call fails
// before any of its functions run.
//
// The constructor panics if f is nil, or if In is not the actor's input type.
func WithIdentity[In any](f func(In) any) Option {
	return func(o *options) {
		if f == nil {
			panic("actors: WithIdentity got nil")
		}
		o.identity = f
	}
}

// SettingOption returns an option that carries a setting of another package, such as the API key of
// openai.New, among the options of an actor. A constructor that knows the setting removes it with
// [SplitSettings]; any other constructor panics with a message that contains name.
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

	// setting is a setting of another package. settingName is the name of the option that carries
	// it.
	setting     any
	settingName string

	// The options that set the fields from here to answerByTool are valid only for
	// NewAgent and NewTypedAgent. agentOnly names the first of them that was used.
	agentOnly      string
	functions      []Function
	toolsFuncs     []func(context.Context) ([]Function, error)
	instructions   instructions
	model          ModelOptions
	maxTurns       int
	maxCorrections int
	workers        int
	stopOnError    bool
	answerByTool   bool

	approval *approval // only for NewTool; nil if no approval is needed
	strict   bool      // for tools and typed agents
	cached   bool      // WithCache was used

	identity any // a func(In) any; if nil, the default identity is used
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
	option := ""
	switch {
	case spec.Kind != record.KindAgent:
	case o.spec.Irreversible:
		option = "WithIrreversible"
	case o.spec.InDoubt > core.InDoubtRetry:
		option = "WithInDoubt"
	}
	if option != "" {
		panic(fmt.Sprintf("actors: %q: %s applies only to tools and models: an agent that was cut off is always entered again; give the option to the tool with the effect", spec.Name, option))
	}
	if o.cached && o.spec.NoStore {
		panic(fmt.Sprintf("actors: %q has WithNoStore, so its output is not kept, and WithCache; use one or the other", spec.Name))
	}
	return o
}

// define returns the definition of an actor, for all constructors except
// NewAgent and NewTypedAgent. It panics if the definition is invalid, since
// that is a programming error.
func define[In, Out any](o *options, handler core.Handler[In, Out]) *core.Definition[In, Out] {
	if o.spec.Kind != record.KindLLM && handler != nil { // an LLM's handler emits a PartBegin in each attempt
		handler = withVoidDeltas(handler)
	}
	return withIdentity(must(core.NewDefinition(o.spec, handler)), o.identity)
}

// applyTyped is like apply, but is for all constructors except NewAgent and NewTypedAgent: it
// panics if an option does not apply to the kind of actor.
func applyTyped(spec core.Spec, opts []Option) *options {
	o := apply(spec, opts)
	if o.agentOnly != "" {
		panic(fmt.Sprintf("actors: %q: %s applies only to NewAgent and NewTypedAgent", spec.Name, o.agentOnly))
	}
	if o.approval != nil && spec.Kind != record.KindTool {
		panic(fmt.Sprintf("actors: %q: WithApproval applies only to tools", spec.Name))
	}
	if o.strict && spec.Kind != record.KindTool {
		panic(fmt.Sprintf("actors: %q: WithStrict applies only to tools and NewTypedAgent", spec.Name))
	}
	return o
}

// withIdentity returns the definition with the given identity function, a
// func(In) any; nil means the default identity. It panics if different inputs
// could have the same identity.
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
	panic(fmt.Sprintf("actors: %q: WithIdentity got a %T, want a %T for the actor's input", name, got, want))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// functionName matches the function names that OpenAI and Anthropic accept.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// CheckFunctionName returns an error if LLM services do not accept name as the
// name of a function. They accept 1 to 64 letters, digits, underscores and
// dashes.
func CheckFunctionName(name string) error {
	if functionName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("actors: %q cannot be the name of a function; LLM services allow 1 to 64 letters, digits, underscores and dashes", record.Truncate(name, 80))
}
