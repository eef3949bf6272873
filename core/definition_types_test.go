package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/record"
)

// sealed has no fields that can be encoded.
type sealed struct {
	secret string //nolint:unused // not encoded
}

// order contains sealed values.
type order struct {
	ID    string
	Parts []*sealed
}

// identified is an order that defines its own identity.
type identified order

func (i identified) Identity() any { return i.ID }

func TestOutputThatWouldLoseSomethingIsRefused(t *testing.T) {
	for want, err := range map[string]error{
		`the output of "tool" would not be the same when it is read from its record: codec: field .Parts[]: a core_test.sealed would be lost: it has no exported field`: returning[order](core.Spec{}),
		`a core_test.sealed would be lost`:            returning[sealed](core.Spec{}),
		`a error would be lost: it is an interface`:   returning[error](core.Spec{}),
		`field .Err: a error would be lost`:           returning[struct{ Err error }](core.Spec{}),
		`a fmt.Stringer would be lost`:                returning[map[string]fmt.Stringer](core.Spec{}),
		`return something else, or mark the actor`:    returning[order](core.Spec{}),
		`such as MarshalJSON and UnmarshalJSON), tag`: returning[order](core.Spec{}),
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, returning[order](core.Spec{NoStore: true}))
	require.NoError(t, returning[any](core.Spec{}))
}

// taking returns a definition whose handler takes an In.
func taking[In any](t *testing.T, spec core.Spec) *core.Definition[In, string] {
	t.Helper()
	spec.Kind, spec.Name = record.KindTool, "tool"
	d, err := core.NewDefinition(spec, func(context.Context, In) (string, error) { return "made", nil })
	require.NoError(t, err)
	return d
}

func TestInputWithoutItsOwnHashIsRefusedUnlessItDefinesItsIdentity(t *testing.T) {
	d := taking[order](t, core.Spec{})
	require.ErrorContains(t, d.Check(), `core: inputs of "tool" could not be told apart: codec: field .Parts[]: a core_test.sealed would be lost`)
	require.ErrorContains(t, d.Check(), "or define the identity of the input")
	_, err := d.Event().Execute(t.Context(), order{})
	require.Equal(t, d.Check(), err)
	_, err = d.Event().Prepare(t.Context(), order{}).Execute(t.Context())
	require.Equal(t, d.Check(), err)

	known := d.Identify(func(o order) any { return o.ID })
	require.NoError(t, known.Check())
	out, err := known.Event().Execute(t.Context(), order{})
	require.NoError(t, err)
	assert.Equal(t, "made", out)
	require.NoError(t, taking[identified](t, core.Spec{}).Check())
	cached := core.Spec{Interceptors: []core.Interceptor{cache.New(cache.NewMemory(1), cache.Options{}).Interceptor("", 0)}}
	_, err = taking[identified](t, cached).Event().Execute(t.Context(), identified{})
	require.ErrorContains(t, err, "could not be told apart", "a cache compares whole inputs")
	require.NoError(t, taking[any](t, core.Spec{}).Check())
	var none *core.Definition[int, int]
	require.ErrorContains(t, none.Check(), "never defined")
}
