package state_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// ledger is an external service that counts how often each effect happened.
type ledger struct {
	mu   sync.Mutex
	done map[string]int
}

func (l *ledger) book(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[what]++
}

type parcel struct {
	Order string `json:"order"`
}

// fulfil returns the agent of a release: the second release checks an order
// before it is packed, and the third adds a letter. A deploy interrupts the run
// after deployAfter calls.
func fulfil(release, deployAfter int, l *ledger) actors.Agent[parcel, string] {
	done := 0
	tool := func(name string) actors.Tool[parcel, string] {
		return decorators.Tool(name, "Handles a parcel.", func(ctx context.Context, in parcel) (string, error) {
			if done == deployAfter {
				state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
				return "", ctx.Err()
			}
			done++
			l.book(in.Order + " " + name)
			return name, nil
		})
	}
	reserve, check, pack, letter, ship := tool("reserve"), tool("check"), tool("pack"), tool("letter"), tool("ship")
	return decorators.Agent("fulfil", "Sends an order.", func(ctx context.Context, in parcel) (string, error) {
		did, err := reserve.Call(ctx, in)
		if err != nil {
			return "", err
		}
		steps := []actors.Tool[parcel, string]{pack, ship} // release 1 did not call Version
		if release > 1 {
			switch core.Version(ctx, "how to pack", release-1) {
			case 1:
				steps = []actors.Tool[parcel, string]{check, pack, ship}
			case 2:
				steps = []actors.Tool[parcel, string]{check, pack, letter, ship}
			}
		}
		for _, step := range steps {
			out, err := step.Call(ctx, in)
			if err != nil {
				return "", err
			}
			did += ", " + out
		}
		return did, nil
	})
}

// Three releases of one agent are deployed while runs of each are in progress.
// Nothing is lost, and nothing happens twice.
func ExampleOpen_deploy() {
	store := memstore.New()
	books := &ledger{done: make(map[string]int)}
	work := func(release int, order string, deployAfter int) (string, error) {
		st, err := state.Open(context.Background(), store, order)
		if err != nil {
			return "", err
		}
		defer st.Close()
		return fulfil(release, deployAfter, books).Call(st.Context(context.Background()), parcel{order})
	}
	const never = -1
	var orders []string
	for release := 1; release <= 3; release++ {
		for _, order := range orders { // runs that were in progress at the deploy
			if _, err := work(release, order, 1); err != nil && !errors.Is(err, core.ErrInterrupted) {
				fmt.Println(err)
			}
		}
		for after := range 3 {
			order := fmt.Sprintf("release-%d-deploy-after-%d", release, after)
			orders = append(orders, order)
			if _, err := work(release, order, after); !errors.Is(err, core.ErrInterrupted) {
				fmt.Println("no deploy:", err)
			}
		}
	}
	for _, order := range orders {
		did, err := work(3, order, never)
		fmt.Println(order, did, err)
	}
	twice := maps.Clone(books.done)
	maps.DeleteFunc(twice, func(_ string, times int) bool { return times == 1 })
	fmt.Println(len(books.done), "things were done, more than once:", twice)
	// Output:
	// release-1-deploy-after-0 reserve, check, pack, ship <nil>
	// release-1-deploy-after-1 reserve, pack, ship <nil>
	// release-1-deploy-after-2 reserve, pack, ship <nil>
	// release-2-deploy-after-0 reserve, check, pack, letter, ship <nil>
	// release-2-deploy-after-1 reserve, check, pack, ship <nil>
	// release-2-deploy-after-2 reserve, check, pack, ship <nil>
	// release-3-deploy-after-0 reserve, check, pack, letter, ship <nil>
	// release-3-deploy-after-1 reserve, check, pack, letter, ship <nil>
	// release-3-deploy-after-2 reserve, check, pack, letter, ship <nil>
	// 38 things were done, more than once: map[]
}
