package cache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A hotel has a tool that reserves rooms and can be compensated.
type hotel struct{ reserved, undone int }

func (h *hotel) tool(opts ...actors.Option) actors.Tool[city, int] {
	return decorators.Tool("reserve", "", func(context.Context, city) (int, error) { h.reserved++; return h.reserved, nil }, opts...).
		Compensate(func(context.Context, city, int) error { h.undone++; return nil })
}

// Since the reservation may be undone, no other call may use its output: neither the same call
// after the run is retried, nor a call of another run. This also applies to an agent that makes the
// reservation.
func TestCallsThatCanBeCompensatedAreNotCached(t *testing.T) {
	cached := actors.WithCache(memory(), "1", time.Hour)
	for name, ofAgent := range map[string]bool{"tool": false, "agent": true} {
		t.Run(name, func(t *testing.T) {
			h, full, store := new(hotel), true, memstore.New()
			tool := h.tool(cached)
			reserve := tool.Call
			if ofAgent {
				tool = h.tool()
				reserve = decorators.Agent("travel", "", tool.Call, cached).Call
			}
			trip := decorators.Agent("trip", "", func(ctx context.Context, in city) (int, error) {
				room, err := reserve(ctx, in)
				if err == nil && full {
					err = errors.New("the flight is full")
				}
				return room, err
			})
			run := func(runID string) (int, error) {
				st, err := state.Open(t.Context(), store, runID, state.WithCompensations(tool))
				require.NoError(t, err)
				room, err := trip.Call(st.Context(t.Context()), city{})
				require.NoError(t, st.Close())
				return room, err
			}
			_, err := run("a")
			require.ErrorContains(t, err, "the flight is full")
			require.Equal(t, hotel{reserved: 1, undone: 1}, *h)
			full = false
			_, err = state.Retry(t.Context(), store, "a")
			require.NoError(t, err)
			room, err := run("a")
			require.NoError(t, err)
			assert.Equal(t, 2, room)
			room, err = run("b")
			require.NoError(t, err)
			assert.Equal(t, 3, room)
			assert.Equal(t, hotel{reserved: 3, undone: 1}, *h)
		})
	}
}
