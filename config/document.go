package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// A Document is the retry configuration of a program's runs.
type Document struct {
	All    *Retry                // of all calls for which nothing else is set; nil if not set
	Kinds  map[record.Kind]Retry // of the calls of a kind
	Actors map[string]Retry      // of the calls of an actor, by its name; instead of the actor's own
}

// kinds are those whose calls are retried.
var kinds = []record.Kind{record.KindTool, record.KindLLM, record.KindAgent}

// Parse reads a YAML or JSON document. The error is an *[Error]; there is no
// document then.
func Parse(data []byte) (*Document, error) {
	d := new(Document)
	if err := read(data, func(v value) { v.document(d) }); err != nil {
		return nil, err
	}
	return d, nil
}

// ReadFile reads the document in a file, as [Parse] does; problems name the file.
func ReadFile(name string) (*Document, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	d, err := Parse(data)
	return d, inFile(name, err)
}

// readFile reads no more than can be a document.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := readSome(f)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return data, nil
}

// inFile puts the name of the file into the problems of err.
func inFile(name string, err error) error {
	var bad *Error
	if !errors.As(err, &bad) {
		return err
	}
	for i := range bad.Problems {
		bad.Problems[i].File = name
	}
	return bad
}

// Options are those of state.New, state.Open and the like that give a run the
// configuration.
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

// actors reads the configurations of actors by name.
func (v value) actors() map[string]Retry {
	actors := make(map[string]Retry)
	for _, e := range v.entries("a mapping of names of actors to their configurations") {
		if err := core.CheckName(e.key); err != nil {
			key := e.value
			key.node = e.keyNode
			key.fail("this is not the name of an actor: %s", strings.TrimPrefix(err.Error(), "core: "))
			continue
		}
		actors[e.key] = e.value.retry()
	}
	return actors
}
