package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// A Document is the retry configuration of a program's runs. The zero value sets
// nothing.
type Document struct {
	All    *Retry                // for calls without a more specific level; nil if not set
	Kinds  map[record.Kind]Retry // for calls of one kind
	Actors map[string]Retry      // for calls to an actor, by name; replaces the actor's own configuration
}

// kinds lists the kinds of calls that are retried.
var kinds = []record.Kind{record.KindTool, record.KindLLM, record.KindAgent}

// Parse reads a YAML or JSON document. If the document is invalid, Parse returns nil
// and an *[Error].
func Parse(data []byte) (*Document, error) {
	d := new(Document)
	if err := read(data, func(v value) { v.document(d) }); err != nil {
		return nil, err
	}
	return d, nil
}

// ReadFile is like [Parse], but reads a file. The problems in an *[Error] contain the file name.
func ReadFile(name string) (*Document, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	d, err := Parse(data)
	return d, withFile(name, err)
}

// readFile reads a file. It reads at most one byte more than the maximum size of a document.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	// Read one byte more than the maximum, so that Parse rejects larger files.
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return data, nil
}

// withFile sets the file name in the problems that err lists.
func withFile(name string, err error) error {
	var bad *Error
	if !errors.As(err, &bad) {
		return err
	}
	for i := range bad.Problems {
		bad.Problems[i].File = name
	}
	return bad
}

// Options returns the options that configure a run, for state.New, state.Open and
// similar functions.
func (d *Document) Options() []state.Option {
	var options []state.Option
	if d.All != nil {
		options = append(options, state.WithRetry(d.All.Config()))
	}
	for kind, r := range d.Kinds {
		options = append(options, state.WithRetryFor(kind, r.Config()))
	}
	for name, r := range d.Actors {
		options = append(options, state.WithRetryForActor(name, r.Config()))
	}
	return options
}

func (v value) document(d *Document) {
	fields := map[string]func(value){
		"all":    func(v value) { r := v.retry(); d.All = &r },
		"actors": func(v value) { d.Actors = v.actors() },
	}
	for _, kind := range kinds {
		fields[kind.String()] = func(v value) {
			if d.Kinds == nil {
				d.Kinds = make(map[record.Kind]Retry)
			}
			d.Kinds[kind] = v.retry()
		}
	}
	v.fields("a mapping with the keys "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "), fields)
}

// actors reads the configurations of actors, by name.
func (v value) actors() map[string]Retry {
	actors := make(map[string]Retry)
	for _, e := range v.entries("a mapping from actor names to configurations") {
		if err := core.CheckName(e.key); err != nil {
			key := e.value
			key.node = e.keyNode
			key.fail("invalid actor name: %s", strings.TrimPrefix(err.Error(), "core: "))
			continue
		}
		actors[e.key] = e.value.retry()
	}
	return actors
}
