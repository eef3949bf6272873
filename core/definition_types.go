package core

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// howToStore explains how to change a type so that all of it is stored.
const howToStore = "export the fields, give the type a pair of methods that encode and decode it (such as MarshalJSON and UnmarshalJSON), " +
	`tag a field that is not needed with json:"-"`

// checkOutput returns an error if outputs of the given type could not be restored from a run's
// records.
func checkOutput(spec *Spec, output reflect.Type) error {
	if spec.NoStore || spec.Kind == record.KindGroup {
		return nil
	}
	orNoStore := ", or mark the actor NoStore"
	if spec.Kind == record.KindBranch {
		orNoStore = ""
	}
	err := codec.CheckType(output)
	var loss *codec.LossError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &loss):
		return fmt.Errorf("core: the output of %q would not be the same when it is read from its record: %w; %s, return something else%s", spec.Name, err, howToStore, orNoStore)
	}
	return fmt.Errorf("core: the output of %q could never be stored: %w; return something else%s", spec.Name, err, orNoStore)
}

// checkInput returns an error if different inputs of the given type can have equal hashes.
func checkInput(spec *Spec, input reflect.Type) error {
	if spec.Kind.IsParallel() || input.Implements(reflect.TypeFor[Identifier]()) {
		return nil
	}
	return checkWholeInput(spec, input)
}

func checkWholeInput(spec *Spec, input reflect.Type) error {
	if err := codec.CheckInput(input); err != nil {
		return fmt.Errorf("core: inputs of %q could not be told apart: %w; %s, or define the identity of the input (with actors.WithIdentity or Definition.Identify, or with the method Identity of an Identifier)",
			spec.Name, err, howToStore)
	}
	return nil
}
