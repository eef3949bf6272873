package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// An Actor makes the root calls of a program's runs. It is an agent or a tool of package actors.
type Actor[In, Out any] interface {
	Name() string
	Description() string // what the actor is for; may be empty
	Call(ctx context.Context, in In) (Out, error)
	DecodeInput(input json.RawMessage) (In, error)
	InputSchema() json.RawMessage // the JSON schema of the input; nil if there is none

	// Compensations returns the known compensations for calls of the actor. A run of the program
	// can make these compensations, as well as those passed to WithCompensations.
	Compensations() []*core.Compensation
}

// A Program is a registered actor with its input and output types.
type Program[In, Out any] struct {
	runner  *Runner
	program *program
}

// program is a registered actor, without its types. Inputs are encoded with record.Encode.
type program struct {
	programKey
	description string
	inputSchema json.RawMessage                                               // nil if there is none
	inputType   reflect.Type                                                  // the type of the input
	encode      func(input any) (encodedInput, error)                         // the error is an *InputError
	decode      func(encoded []byte) (func(ctx context.Context) error, error) // returns a function that makes the call with the input; the error is an *InputError
	result      func(ctx context.Context, store snapshot.Store, runID string) (any, error)

	compensable []state.Compensable
}

// encodedInput is an input encoded with record.Encode.
type encodedInput struct {
	data      []byte
	artifacts []string // references to artifacts in the input
}

type programKey struct{ name, version string }

// A ProgramOption configures a program.
type ProgramOption func(*program)

// WithVersion sets the version of a program. A version consists of 1 to 64 letters, digits, dots,
// dashes and underscores. Defaults to "1".
func WithVersion(version string) ProgramOption {
	return func(p *program) { p.version = version }
}

// WithCompensations sets the compensations that runs of the program can make; see
// state.WithCompensations. Pass every actor that the program calls and that has a compensation,
// including actors that only earlier builds of the same version call. If an agent was made with its
// tools, for example by actors.NewAgent, its actors are known without this option.
func WithCompensations(actors ...state.Compensable) ProgramOption {
	return func(p *program) { p.compensable = append(p.compensable, actors...) }
}

// actorID identifies a compensation in the records of a run.
type actorID struct {
	kind record.Kind
	name string
}

// compensations returns the compensations that the program's runs can make.
func (p *program) compensations() map[actorID]*core.Compensation {
	known := make(map[actorID]*core.Compensation)
	for _, actor := range p.compensable {
		for _, c := range actor.Compensations() {
			kind, name := c.Actor()
			known[actorID{kind, name}] = c
		}
	}
	return known
}

// checkOthers returns an error if a program with another name has a different compensation for an
// actor of the same kind and name, since a reader of the records could not tell the two actors
// apart. Versions of one program may differ. r.mu must be held.
func (r *Runner) checkOthers(p *program) error {
	own := p.compensations()
	for _, other := range r.programs {
		if other.name == p.name {
			continue
		}
		for id, c := range other.compensations() {
			if mine := own[id]; mine != nil && mine != c {
				return fmt.Errorf("runner: programs %q and %q have actors of kind %v named %q with different compensations; want one actor, or two names", other.name, p.name, id.kind, id.name)
			}
		}
	}
	return nil
}

// Register registers an actor under its name. New runs use the version that was registered last
// under that name. Register panics if the name or the version is invalid, or if the version is
// already registered under that name. It also panics if two actors of the same kind and name have
// different compensations, whether within the program or in a program with another name. Register
// may be called at any time. Runs that wait for the program begin with the next sweep.
//
// If an input contains references to artifacts that have already been put into the runner's store,
// In needs a method Artifacts() []string that returns these references. The method may be called
// for a zero In. The references are in the first record of the run, so that a GC of artifacts keeps
// the artifacts for as long as the run exists.
//
// If the code changes, it needs another version. A run that was started by different code under the
// same version stops where the code differs, or at its beginning if its input does not fit In. The
// run is interrupted with the reason record.InterruptDiverge, and can be resumed by a process in
// which the code that started it is registered. There is one exception: if the process is killed
// after one branch of a group has made a call of the changed code, and before another branch is
// found to differ, the run stops with both the old and the new code. To get a run that continues,
// call state.Fork with the address of that call.
func Register[In, Out any](r *Runner, actor Actor[In, Out], options ...ProgramOption) *Program[In, Out] {
	p := &program{
		programKey:  programKey{actor.Name(), "1"},
		description: actor.Description(),
		inputSchema: actor.InputSchema(),
		inputType:   reflect.TypeFor[In](),
		result: func(ctx context.Context, store snapshot.Store, runID string) (any, error) {
			return state.Result[Out](ctx, store, runID)
		},
	}
	p.encode = func(input any) (encodedInput, error) {
		encoded, err := encodeInput(actor, input)
		if err != nil {
			return encodedInput{}, &InputError{p.name, p.version, err}
		}
		return encoded, nil
	}
	p.decode = func(encoded []byte) (func(context.Context) error, error) {
		in, err := decodeInput[In](encoded)
		if err != nil {
			return nil, &InputError{p.name, p.version, err}
		}
		return func(ctx context.Context) error {
			_, err := actor.Call(ctx, in)
			return err
		}, nil
	}
	for _, option := range options {
		option(p)
	}
	if len(actor.Compensations()) > 0 {
		p.compensable = append(p.compensable, actor)
	}
	if err := r.register(p); err != nil {
		panic(err)
	}
	return &Program[In, Out]{r, p}
}

// encodeInput encodes an In, or JSON that can be decoded into an In.
func encodeInput[In, Out any](actor Actor[In, Out], input any) (encodedInput, error) {
	in, ok := input.(In)
	if raw, isJSON := input.(json.RawMessage); !ok && isJSON {
		var err error
		if in, err = actor.DecodeInput(raw); err != nil {
			return encodedInput{}, err
		}
	} else if !ok {
		return encodedInput{}, fmt.Errorf("got an input of type %T, want %T or JSON as a json.RawMessage", input, in)
	}
	data, err := record.Encode(in)
	if err != nil {
		return encodedInput{}, err
	}
	if _, err := decodeInput[In](data); err != nil { // a run with such an input could never begin
		return encodedInput{}, fmt.Errorf("the encoded input cannot be decoded: %w", err)
	}
	encoded := encodedInput{data: data}
	if a, ok := any(in).(interface{ Artifacts() []string }); ok {
		encoded.artifacts = a.Artifacts()
	}
	return encoded, nil
}

// decodeInput decodes an input. It returns an error if In has no field for a part of the input,
// which another process may have stored.
func decodeInput[In any](encoded []byte) (in In, err error) {
	lost, err := record.DecodeAll(encoded, &in)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%T has no field for %s", in, strings.Join(lost, ", "))
	}
	return in, err
}

func (r *Runner) register(p *program) error {
	switch {
	case p.name == "":
		return errors.New("runner: Register: the actor has no name; make it with decorators.Agent or actors.NewAgent")
	case !isVersion(p.version):
		return fmt.Errorf("runner: program %q: the version is %q; want 1 to 64 letters, digits, dots, dashes and underscores", p.name, p.version)
	}
	if err := state.CheckOptions(state.WithCompensations(p.compensable...)); err != nil {
		return fmt.Errorf("runner: program %q: %w", p.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.programs[p.programKey] != nil {
		return fmt.Errorf("runner: program %q, version %s, is already registered; register different code as another version (runner.WithVersion)", p.name, p.version)
	}
	if err := r.checkOthers(p); err != nil {
		return err
	}
	r.programs[p.programKey], r.current[p.name] = p, p
	return nil
}

func isVersion(v string) bool {
	return v != "" && len(v) <= 64 && !strings.ContainsFunc(v, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
	})
}

// find returns a program. If version is empty, find returns the version that new runs use.
func (r *Runner) find(name, version string) (*program, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.current[name]
	if version != "" {
		p = r.programs[programKey{name, version}]
	}
	if p == nil {
		return nil, &NotRegisteredError{Program: name, Version: version, Registered: r.registered()}
	}
	return p, nil
}

// registered returns the names of the programs, sorted. r.mu must be held.
func (r *Runner) registered() []string {
	names := make([]string, 0, len(r.programs))
	for k := range r.programs {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return names
}

func (k programKey) String() string { return k.name + " " + k.version }

// Programs returns the names of the registered programs, sorted.
func (r *Runner) Programs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.current {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Start is [Runner.Start] with a typed input.
func (p *Program[In, Out]) Start(ctx context.Context, runID string, in In, o StartOptions) (snapshot.Info, error) {
	info, _, err := p.runner.start(ctx, p.program, runID, in, o)
	return info, err
}

// Result returns the output of a run of the program, or the error with which the run failed. If the
// run has not ended, the error is state.ErrNotEnded; call [Runner.Wait] first. If the run belongs to
// another program, Result returns that program's output if it is an Out, and otherwise an error that
// names both types.
func (p *Program[In, Out]) Result(ctx context.Context, runID string) (Out, error) {
	result, err := p.runner.Result(ctx, runID)
	out, ok := result.(Out)
	if err == nil && !ok {
		return out, fmt.Errorf("runner: the result of run %s is a %T, but %s returns a %T", runID, result, p.program.programKey, out)
	}
	return out, err
}
