package actors_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
)

// shipment has a part that no hash could include.
type shipment struct {
	ID   string  `json:"id"`
	Seal *seal   `json:"seal"`
	Cost float64 `json:"cost"`
}

type seal struct {
	wax string //nolint:unused // not encoded
}

func TestActorWhoseInputsCouldNotBeToldApartIsRefusedUnlessItHasAnIdentity(t *testing.T) {
	send := func(context.Context, shipment) (string, error) { return "sent", nil }
	refused := func() { decorators.Tool("send", "Sends it.", send) }
	assert.PanicsWithError(t, `core: inputs of "send" could not be told apart: codec: field .Seal: a actors_test.seal would be lost: it has no exported field, and no methods `+
		`that encode and decode it; export the fields, give the type a pair of methods that encode and decode it (such as MarshalJSON and UnmarshalJSON), tag a field that is `+
		`not needed with json:"-", or define the identity of the input (with actors.WithIdentity or Definition.Identify, or with the method Identity of an Identifier)`, refused)
	assert.NotPanics(t, func() {
		decorators.Tool("send", "Sends it.", send, actors.WithIdentity(func(p shipment) any { return p.ID }))
		decorators.Tool("send", "Sends it.", send, actors.WithIdentity(func(p shipment) any { return p.ID }), actors.WithApproval())
	})
}
