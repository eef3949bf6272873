package state

import (
	"context"
	"crypto/rand"
	"fmt"
	randv2 "math/rand/v2"
	"reflect"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// An Option configures a run.
type Option func(*config)

// A Publisher is called with every record of a run that was stored, if the run has
// a store, and with that of its end, in sequence order and by one goroutine at a
// time: that of some call, which may have to publish the records
// of others too and is held up for as long. It must be fast, therefore;
// package bus has one that holds up nothing. It may use the run, but not close
// it. Its panics are counted and ignored.
type Publisher interface {
	Publish(record.Record)
}

// Artifacts stores outputs that are too large for a record. Put returns a
// reference to encoded, and is called by many goroutines. An error that is
// [snapshot.ErrUnavailable] says that nothing can be stored now: the run is
// interrupted. With any other the attempt has failed.
type Artifacts interface {
	Put(ctx context.Context, encoded []byte) (reference string, err error)
}

// A Checker asks, outside the process, whether a run is to be interrupted: a
// nil interrupt is a no. An error is logged once and changes nothing.
type Checker func(context.Context) (interrupt *core.InterruptedError, err error)

// An ArtifactReader also finds what it stored; a run that is resumed needs it.
// snapshot.ArtifactStore is one.
type ArtifactReader interface {
	Get(ctx context.Context, reference string) ([]byte, error)
}

// Metadata describes a run.
type Metadata = snapshot.Metadata

// WithRepublish makes calls that are recalled publish their old records and
// those of what is inside them, marked as replayed. Otherwise each publishes
// one recovered record.
func WithRepublish() Option {
	return func(c *config) { c.republish = true; c.isFor("WithRepublish", inOpen|inReplay) }
}

// WithRoundTrip hands out outputs and errors as a resumed run would: encoded
// and decoded again. It is for tests, which find with it what would differ.
func WithRoundTrip() Option { return func(c *config) { c.settings.RoundTrip = true } }

// WithRerunFailed makes a resumed run try again what failed for good, for when
// what was wrong was mended outside: failed tools, LLMs and steps run with a
// fresh budget, and failed agents around them are entered again as their last
// attempt, so that their finished calls stay restored.
func WithRerunFailed() Option {
	return func(c *config) { c.rerunFailed = true; c.isFor("WithRerunFailed", inOpen) }
}

// WithWait makes [Open] wait while another has the run open, until its context
// ends. Without it, Open is snapshot.ErrLocked then.
func WithWait() Option { return func(c *config) { c.wait = true; c.isFor("WithWait", inOpen) } }

// WithRedaction has redact see to every text that the run shows: to what
// publishers get, and so to consoles and wires, and to what
// [ExecutionState.Records] returns. See [record.Record.Redacted] for what it
// applies to. It is called by the goroutine that publishes, with the text of
// one error, message or preview at a time.
//
// The store keeps everything as it was: replay needs it, and errors and
// messages are what a resumed program sees. Whoever reads records from there,
// such as the command reprise or a dashboard (but see streamer.Options.Redact),
// sees them without redaction; what must not be written at all is for actors
// marked NoStore.
func WithRedaction(redact func(text string) string) Option {
	return func(c *config) {
		if redact == nil {
			c.must(fmt.Errorf("state: WithRedaction got nil"))
		}
		c.redact = redact
	}
}

// WithRunID names the run: 1 to 128 letters, digits, dots, dashes and
// underscores, not beginning with a dot. Defaults to a random name. It is for
// [New]: the run of [Open] is named by its argument.
func WithRunID(id string) Option {
	return func(c *config) { c.must(CheckRunID(id)); c.settings.RunID = id; c.isFor("WithRunID", inNew) }
}

// WithPublisher adds a publisher.
func WithPublisher(p Publisher) Option {
	return func(c *config) {
		c.mustNotBeNil("WithPublisher", p)
		c.publishers = append(c.publishers, p)
	}
}

// WithRetry sets the retry configuration of all calls for which nothing more
// specific is set. That includes agents, which otherwise have one attempt: an
// agent that is tried again makes all its calls again, each with its own
// retries. WithRetryFor(record.KindAgent, core.RetryConfig{Disabled: true})
// leaves them out.
func WithRetry(cfg core.RetryConfig) Option {
	return func(c *config) { c.settings.Retry = c.policy(cfg) }
}

// WithRetryFor sets the retry configuration of the calls of one kind, for
// which neither event nor actor has one.
func WithRetryFor(kind record.Kind, cfg core.RetryConfig) Option {
	return func(c *config) {
		if !kind.IsCall() || kind == record.KindStep {
			c.must(fmt.Errorf("state: WithRetryFor: calls of kind %v are not retried; want KindTool, KindLLM or KindAgent", kind))
		}
		c.settings.RetryByKind[kind] = c.policy(cfg)
	}
}

// WithRetryForActor sets the retry configuration of the calls of the actors of
// that name, instead of their own: it is for configuration that comes from
// outside the program, such as that of package config.
func WithRetryForActor(name string, cfg core.RetryConfig) Option {
	return func(c *config) {
		if err := core.CheckName(name); err != nil {
			c.must(fmt.Errorf("state: WithRetryForActor: %w", err))
		}
		if c.settings.RetryByActor == nil {
			c.settings.RetryByActor = make(map[string]*core.Policy)
		}
		c.settings.RetryByActor[name] = c.policy(cfg)
	}
}

// WithSeed makes the jitter of the run repeatable: with the same seed, the
// same call has the same delays. Defaults to a random seed.
func WithSeed(seed uint64) Option { return func(c *config) { c.settings.Seed = seed } }

// WithPayloads keeps inputs and outputs in the records, for those who watch.
// Inputs and outputs that cannot be encoded fail their calls. The input of a
// call of an LLM is the whole conversation so far, so that what is kept grows
// with the square of its length: a conversation of 100 turns with 2 KB each
// takes 10 MB, and one of 1,000 turns takes 1 GB. Without WithPayloads it grows
// with its length, unless each turn is a root call: their inputs are always kept.
func WithPayloads() Option { return func(c *config) { c.settings.Payloads = true } }

// WithArtifacts stores outputs above 64 KiB, encoded, apart. Storing is
// a part of the attempt, and retried with it.
func WithArtifacts(a Artifacts) Option {
	return func(c *config) {
		c.mustNotBeNil("WithArtifacts", a)
		c.artifacts, c.settings.Artifacts = a, true
	}
}

// WithInterruptChecker asks check before each call, after its preconditions,
// and before, during (every 100 ms) and after each wait; no more often than
// every 100 ms for the whole run.
func WithInterruptChecker(check Checker) Option {
	return func(c *config) {
		if check == nil {
			c.must(fmt.Errorf("state: WithInterruptChecker got nil"))
		}
		c.checker = check
	}
}

// WithMetadata describes the run.
//
// A run that is resumed without it has the metadata that it began with.
func WithMetadata(m Metadata) Option {
	return func(c *config) { c.metadata, c.described = m.Clone(), true }
}

// CheckRunID reports what keeps id from being a run ID; it is
// snapshot.CheckRunID.
func CheckRunID(id string) error { return snapshot.CheckRunID(id) }

// config is what the options say.
type config struct {
	settings   *core.Settings
	publishers []Publisher
	artifacts  Artifacts
	checker    Checker
	metadata   Metadata
	described  bool // there was WithMetadata
	redact     func(string) string
	limited    []limited

	strict, rerunFailed bool
	further             bool // a finished run may go on
	divergence          Divergence
	sync                Sync
	rootsAtClose        bool
	republish           bool
	wait                bool
	owner               string
	existing            func(*snapshot.Run) error // nil if the run may be begun
}

// place is where an option has an effect.
type place uint8

const (
	inNew place = 1 << iota
	inOpen
	inReplay // and Validate
)

// String names the functions.
func (p place) String() string {
	var names []string
	for i, name := range []string{"New", "Open", "Replay and Validate"} {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// limited is an option that has an effect in some places only.
type limited struct {
	option string
	places place
}

func (c *config) isFor(option string, places place) {
	c.limited = append(c.limited, limited{option, places})
}

// check refuses options that would do nothing.
func (c *config) check(here place) error {
	for _, o := range c.limited {
		if o.places&here == 0 {
			return fmt.Errorf("state: %s has no effect in %v; it is for %v", o.option, here, o.places)
		}
	}
	return nil
}

func configure(options []Option) *config {
	c := &config{settings: &core.Settings{RunID: newRunID(), Seed: randv2.Uint64()}}
	for _, option := range options {
		if option == nil {
			c.must(fmt.Errorf("state: an option is nil"))
		}
		option(c)
	}
	return c
}

// must panics: what is wrong here is the program, and New cannot fail.
func (c *config) must(err error) {
	if err != nil {
		panic(err)
	}
}

// mustNotBeNil refuses nil, also that of a pointer in an interface, which is
// what an error that was not looked at mostly leaves.
func (c *config) mustNotBeNil(option string, v any) {
	if v == nil {
		c.must(fmt.Errorf("state: %s got nil", option))
		return
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
		if r.IsNil() {
			c.must(fmt.Errorf("state: %s got a %T that is nil", option, v))
		}
	}
}

func (c *config) policy(cfg core.RetryConfig) *core.Policy {
	p, err := core.NewPolicy(cfg)
	c.must(err)
	return p
}

func newRunID() string { return "run-" + strings.ToLower(rand.Text()[:16]) }
