package actors

import (
	"context"
	"maps"
	"slices"
)

// MapNamed calls actor with each of the inputs, as [Map] does, and returns the
// outputs by name. If the group ran, the map contains an output for every name;
// the output of a branch that did not succeed is zero. Branches are numbered in
// the order of their names.
func MapNamed[In, Out any](ctx context.Context, g Group, actor Actor[In, Out], inputs map[string]In) (map[string]Out, error) {
	names := slices.Sorted(maps.Keys(inputs))
	ordered := make([]In, len(names))
	for i, name := range names {
		ordered[i] = inputs[name]
	}
	out, err := Map(ctx, g, actor, ordered)
	return byName(names, out), err
}

// ParallelNamed runs the branches, as [Parallel] does, and returns their results
// by name. Branches are numbered in the order of their names.
func ParallelNamed[T any](ctx context.Context, g Group, branches map[string]func(context.Context) (T, error)) (map[string]T, error) {
	names := slices.Sorted(maps.Keys(branches))
	ordered := make([]func(context.Context) (T, error), len(names))
	for i, name := range names {
		ordered[i] = branches[name]
	}
	out, err := Parallel(ctx, g, ordered...)
	return byName(names, out), err
}

func byName[T any](names []string, results []T) map[string]T {
	if results == nil {
		return nil
	}
	named := make(map[string]T, len(names))
	for i, name := range names {
		named[name] = results[i]
	}
	return named
}
