package types_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// clocks are functions that a program may use to read the time.
var clocks = map[string]func() time.Time{
	"utc": func() time.Time { return time.Now().UTC() }, "local": time.Now,
	"berlin": func() time.Time { return inZone("Europe/Berlin", time.July) }, "zero": func() time.Time { return time.Time{} },
}

// trip reads a clock in a step and makes a booking for that time, formatted as text. The process
// ends in the middle of the booking, unless the third argument is "finish".
func trip(args ...string) error {
	dir, clock, finish := args[0], args[1], args[2] == "finish"
	store, err := filestore.New(dir)
	if err != nil {
		return err
	}
	book, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "book"}, func(_ context.Context, at string) (string, error) {
		if !finish {
			os.Exit(0)
		}
		return at, nil
	})
	if err != nil {
		return err
	}
	agent, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, _ string) (string, error) {
		at, err := core.Step(ctx, "clock", func(context.Context) (time.Time, error) { return clocks[clock](), nil })
		if err != nil {
			return "", err
		}
		return book.Event().Execute(ctx, at.Format(time.RFC3339Nano))
	})
	if err != nil {
		return err
	}
	st, err := state.Open(context.Background(), store, "run-1")
	if err != nil {
		return err
	}
	out, err := agent.Event().Execute(st.Context(context.Background()), "in")
	fmt.Println(out)
	return errors.Join(err, st.Close())
}

func TestUnchangedProgramContinuesOnAMachineInAnotherZone(t *testing.T) {
	for clock := range clocks {
		t.Run(clock, func(t *testing.T) {
			dir := t.TempDir()
			for _, p := range [][2]string{{"America/New_York", "stop"}, {"Asia/Tokyo", "stop"}, {"Asia/Kathmandu", "finish"}} {
				cmd := process.Command(t, "trip", dir, clock, p[1])
				cmd.Env = append(cmd.Env, "TZ="+p[0])
				printed, err := cmd.CombinedOutput()
				require.NoError(t, err, string(printed))
			}
		})
	}
}
