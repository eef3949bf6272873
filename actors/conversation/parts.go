package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// The data of a large part is stored once, as an artifact, and messages refer to the artifact by
// URL. The turn in which the part was sent records the reference as the output of a step, so that
// reprise gc keeps the artifact for as long as the turn exists.

const (
	artifactURL = "artifact:"

	// maxInline is the size above which the output of a step is stored as an artifact.
	maxInline = 64 << 10
)

// keepParts stores the data of large parts and returns the parts with URLs in place of that data.
func keepParts(ctx context.Context, store snapshot.ArtifactStore, parts []actors.Part) ([]actors.Part, error) {
	kept := slices.Clone(parts)
	for i := range kept {
		part := &kept[i]
		if strings.HasPrefix(part.URL, artifactURL) {
			return nil, fmt.Errorf("part %d has the URL %q, which the model's service cannot fetch", i+1, record.Truncate(part.URL, 100))
		}
		encoded, err := record.Encode(part.Data)
		if err != nil {
			return nil, err
		}
		if len(encoded) <= maxInline {
			continue
		}
		reference, err := store.Put(ctx, encoded)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i+1, err)
		}
		part.Data, part.URL = nil, artifactURL+reference
	}
	return kept, nil
}

// partData returns the data that url refers to, and whether url refers to an artifact in the store.
func partData(ctx context.Context, store snapshot.ArtifactStore, url string) (data []byte, isOurs bool, err error) {
	reference, isOurs := strings.CutPrefix(url, artifactURL)
	if !isOurs {
		return nil, false, nil
	}
	encoded, err := store.Get(ctx, reference)
	switch {
	case err == nil:
		err = record.Decode(encoded, &data)
	case errors.Is(err, snapshot.ErrUnavailable):
		err = interrupt(ctx, record.InterruptStore, err)
	}
	return data, true, err
}

// interrupt interrupts the run that ctx belongs to, and returns the interrupt. The cause is err,
// which does not count as a failure of the turn.
func interrupt(ctx context.Context, reason record.InterruptReason, err error) error {
	state.From(ctx).Interrupt(snapshot.Stop{Reason: reason, Message: err.Error()})
	return cmp.Or(context.Cause(ctx), err)
}

// call calls the agent in a run. It lets the agent's LLM load the stored data of parts.
func call(ctx context.Context, store snapshot.ArtifactStore, agent Agent, prompt actors.Prompt) (actors.Answer, error) {
	for i, part := range prompt.Parts {
		if !strings.HasPrefix(part.URL, artifactURL) {
			continue
		}
		keep := func(ctx context.Context) ([]byte, error) {
			data, _, err := partData(ctx, store, part.URL)
			return data, err
		}
		if _, err := core.Step(ctx, fmt.Sprint("part", i+1), keep); err != nil {
			return actors.Answer{}, err
		}
	}
	fetch := func(ctx context.Context, url string) ([]byte, bool, error) { return partData(ctx, store, url) }
	return agent.Call(actors.ContextWithParts(ctx, fetch), prompt)
}
