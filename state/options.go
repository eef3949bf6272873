package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	randv2 "math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// An Option configures a run. If an option is invalid, or has no effect in the function to which it
// is passed, [New] panics, and [Open], [Replay] and [Validate] return an error. The message
// describes what is allowed.
type Option func(*config)

// A Publisher receives every record of a run, in sequence order and from one goroutine at a time.
// If the run has a store, a record is stored before it is published. Publish is called on a call's
// goroutine. The call waits for it, and the goroutine may also have to publish the records of other
// calls. Therefore Publish must be fast; package bus has a publisher that does not delay calls.
// Publish may use the run, but must not close it. Panics in Publish are counted and ignored.
type Publisher interface {
	Publish(record.Record)
}

// An InterruptCheck asks a source outside the process whether to interrupt the run. It returns a
// nil interrupt if the run may continue. Of several consecutive errors, only the first is logged;
// errors have no other effect.
type InterruptCheck func(context.Context) (interrupt *core.InterruptedError, err error)

// WithRepublish makes recalled calls publish their old records and those of the calls inside them,
// marked as replayed. Without it, each recalled call publishes one recovered record.
func WithRepublish() Option {
	return func(c *config) { c.republish = true; c.limitTo("WithRepublish", inOpen|inReplay|inValidate) }
}

// WithRoundTrip makes calls return outputs and errors as they would in a resumed run, that is,
// encoded and then decoded. A run with a store always returns outputs in that form, but it returns
// errors unchanged, so that errors.Is finds the program's own errors. Tests that run a program in
// memory use WithRoundTrip to find out what would differ in a resumed run.
func WithRoundTrip() Option { return func(c *config) { c.settings.RoundTrip = true } }

// WithRedaction applies redact to every text that the run exposes. The run exposes texts in the
// records that publishers receive, and thus on consoles and in streams, and in the records that
// [ExecutionState.Records] returns. See [record.Record.Redacted] for the list of texts. redact is
// called with the text of one error, message or preview at a time, by the goroutine that publishes
// or that calls Records.
//
// The store keeps everything unredacted, because a replay needs it and a resumed program sees the
// errors and messages. Programs that read records from the store, such as the command reprise or a
// dashboard (but see streamer.Options.Redact), see them unredacted. If an actor's outputs must not
// be stored at all, use actors.WithNoStore.
func WithRedaction(redact func(text string) string) Option {
	return func(c *config) {
		if redact == nil {
			c.refuse(errors.New("state: WithRedaction got nil"))
		}
		c.redact = redact
	}
}

// WithRunID sets the ID of the run: 1 to 128 letters, digits, dots, dashes and underscores, not
// beginning with a dot or a dash. Defaults to a random ID. WithRunID is for [New]; [Open] takes the
// ID as an argument.
func WithRunID(id string) Option {
	return func(c *config) {
		c.refuse(snapshot.CheckRunID(id))
		c.settings.RunID = id
		c.limitTo("WithRunID", inNew)
	}
}

// WithPublisher adds a publisher.
func WithPublisher(p Publisher) Option {
	return func(c *config) {
		c.refuseNil("WithPublisher", p)
		c.publishers = append(c.publishers, p)
	}
}

// WithRetry sets the retry configuration for all calls of tools, LLMs and agents for which no more
// specific level is set. If no level is set, tools and LLMs have three attempts with delays of at
// most 30 seconds, and agents have one: an agent that is retried makes all its calls again, each
// with its own retries. To exclude agents from WithRetry, add WithRetryFor(record.KindAgent,
// core.RetryConfig{MaxAttempts: 1}). Steps, groups and branches always have one attempt.
func WithRetry(cfg core.RetryConfig) Option {
	return func(c *config) { c.settings.Retry = c.policy(snapshot.RetryOfAll, cfg) }
}

// WithRetryFor sets the retry configuration for one kind of actor: record.KindTool, KindLLM or
// KindAgent. More specific levels take precedence: the configuration of the call
// ([core.ExecutionEvent]), of WithRetryForActor, and of the actor.
func WithRetryFor(kind record.Kind, cfg core.RetryConfig) Option {
	return func(c *config) {
		if kind != record.KindTool && kind != record.KindLLM && kind != record.KindAgent {
			c.refuse(fmt.Errorf("state: WithRetryFor: calls of kind %v are not retried; want KindTool, KindLLM or KindAgent", kind))
			return
		}
		c.settings.RetryByKind[kind] = c.policy(kind.String(), cfg)
	}
}

// WithRetryForActor sets the retry configuration for calls to the actors with the given name. It
// replaces the actors' own configuration, and is intended for configuration from outside the
// program, such as files read by package config.
func WithRetryForActor(name string, cfg core.RetryConfig) Option {
	return func(c *config) {
		if err := core.CheckName(name); err != nil {
			c.refuse(fmt.Errorf("state: WithRetryForActor: %w", err))
		}
		if c.settings.RetryByActor == nil {
			c.settings.RetryByActor = make(map[string]*engine.Policy)
		}
		c.settings.RetryByActor[name] = c.policy(snapshot.RetryOfActor+name, cfg)
	}
}

// WithInterceptors calls the interceptors around each attempt of every call in the run. The first
// interceptor is the outermost. Interceptors are not recorded: a resumed run has the interceptors
// with which it is opened.
func WithInterceptors(i ...core.Interceptor) Option {
	return func(c *config) { c.settings.Interceptors = append(c.settings.Interceptors, i...) }
}

// WithSeed makes the run's jitter repeatable: with the same seed, the same call has the same
// delays. Defaults to a random seed.
func WithSeed(seed uint64) Option { return func(c *config) { c.settings.Seed = seed } }

// WithPayloads keeps all inputs and outputs in the records, so that they can be shown. Without it,
// a run in a store keeps only what a resume needs: the outputs and some of the inputs, namely the
// inputs of up to 256 bytes, and the inputs of root calls, of calls that may have to be
// compensated, and of calls whose policy is core.InDoubtAsk. A run in memory keeps fewer inputs. If
// an input or output cannot be encoded, its call fails. The input of an LLM call is the whole
// conversation so far, so the records grow with the square of the conversation's length: a
// conversation of 100 turns of 2 KB takes 10 MB, and one of 1,000 turns takes 1 GB. Without
// WithPayloads, the records grow linearly, unless each turn is a root call: the inputs of root
// calls are always kept.
func WithPayloads() Option { return func(c *config) { c.settings.Payloads = true } }

// WithArtifacts stores encoded outputs larger than 64 KiB as artifacts in a, which must be safe for
// concurrent use. Storing an artifact is part of the attempt and is retried with it. But if the
// error is [snapshot.ErrUnavailable], nothing can be stored at present, and the run is interrupted.
func WithArtifacts(a snapshot.ArtifactStore) Option {
	return func(c *config) {
		c.refuseNil("WithArtifacts", a)
		c.artifacts = a
	}
}

// WithInterruptChecker calls check before each call, once the call's preconditions have been
// checked. During a wait, it calls check every 100 ms, and also before and after the wait. Across
// the whole run, check is called at most once every 100 ms.
func WithInterruptChecker(check InterruptCheck) Option {
	return func(c *config) {
		if check == nil {
			c.refuse(errors.New("state: WithInterruptChecker got nil"))
		}
		c.checker = check
	}
}

// WithMetadata sets the metadata of a new run. A stored run keeps the metadata with which it began:
// if it is resumed with other metadata, only the records of this opening have the new metadata, and
// [ExecutionState.Metadata] returns it. If the option is given several times, the tags and the
// entries of Custom are combined; for all other fields, and for equal keys, the last value that is
// not empty is used.
func WithMetadata(m snapshot.Metadata) Option {
	return func(c *config) {
		c.metadata.Description = cmp.Or(m.Description, c.metadata.Description)
		c.metadata.Pipeline = cmp.Or(m.Pipeline, c.metadata.Pipeline)
		for _, tag := range m.Tags {
			if !slices.Contains(c.metadata.Tags, tag) {
				c.metadata.Tags = append(c.metadata.Tags, tag)
			}
		}
		if c.metadata.Custom == nil {
			c.metadata.Custom = maps.Clone(m.Custom)
		} else {
			maps.Copy(c.metadata.Custom, m.Custom)
		}
		c.hasMetadata = true
	}
}

// config holds what the options set.
type config struct {
	settings    *engine.Settings
	levels      snapshot.RetryLevels // levels of retry configuration, as the store keeps them
	publishers  []Publisher
	artifacts   snapshot.ArtifactStore
	checker     InterruptCheck
	openings    []func(context.Context, Opening) map[string]any
	metadata    snapshot.Metadata
	hasMetadata bool // WithMetadata was given
	redact      func(string) string
	limited     []limitedOption
	errs        []error // errors of invalid options

	rerunFailed   bool
	allowsFurther bool // root calls may be added to a run that has ended
	divergence    DivergencePolicy
	sync          SyncPolicy
	republish     bool
	wait          bool
	host          Host
}

// place is a set of functions in which an option has an effect.
type place uint8

const (
	inNew place = 1 << iota
	inOpen
	inReplay
	inValidate // Validate and ValidateExecute
)

// String returns the names of the functions in the set.
func (p place) String() string {
	var names []string
	for i, name := range []string{"New", "Open", "Replay", "Validate"} {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// limitedOption is an option that has an effect only in some functions.
type limitedOption struct {
	option string
	places place
}

func (c *config) limitTo(option string, places place) {
	c.limited = append(c.limited, limitedOption{option, places})
}

// check returns an error if an option has no effect here.
func (c *config) check(here place) error {
	for _, o := range c.limited {
		if o.places&here == 0 {
			return fmt.Errorf("state: %s has no effect in %v; it is for %v", o.option, here, o.places)
		}
	}
	return nil
}

// configure applies the options given to a function. The error names every option that is invalid
// or has no effect in that function.
func configure(options []Option, here place) (*config, error) {
	c := &config{settings: &engine.Settings{RunID: newRunID(), Seed: randv2.Uint64()}, levels: make(snapshot.RetryLevels)}
	for _, option := range options {
		if option == nil {
			c.refuse(errors.New("state: an option is nil"))
			continue
		}
		option(c)
	}
	c.refuse(c.check(here))
	return c, errors.Join(c.errs...)
}

// CheckOptions returns the error that [Open] would return for the options. It is for programs that
// receive their options before they open a run.
func CheckOptions(options ...Option) error {
	_, err := configure(options, inOpen)
	return err
}

// refuse records an option's error, unless err is nil.
func (c *config) refuse(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// refuseNil records an error if v is nil or holds a nil pointer. A nil pointer is often the result
// of an unchecked error.
func (c *config) refuseNil(option string, v any) {
	if v == nil {
		c.refuse(fmt.Errorf("state: %s got nil", option))
		return
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
		if r.IsNil() {
			c.refuse(fmt.Errorf("state: %s got a %T that is nil", option, v))
		}
	}
}

// policy returns the policy for a level, and adds the level to those that the store keeps.
func (c *config) policy(level string, cfg core.RetryConfig) *engine.Policy {
	kept, err := RetryLevel(cfg)
	if err != nil {
		c.refuse(err)
		return nil
	}
	c.levels[level] = kept
	p, err := cfg.Policy()
	c.refuse(err)
	return p
}

func newRunID() string { return "run-" + strings.ToLower(rand.Text()[:16]) }
