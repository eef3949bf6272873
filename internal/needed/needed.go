// Package needed reports which ended runs must be kept because other runs may still read them.
package needed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/snapshot"
)

// ByCaller reports whether the run was called by another run that has not ended and may not have
// read the result yet.
func ByCaller(ctx context.Context, store snapshot.Reader, info *snapshot.Info) (bool, error) {
	by, ok := caller.Of(&info.Metadata)
	if !ok {
		return false, nil
	}
	calling, err := store.Info(ctx, by.RunID)
	if errors.Is(err, snapshot.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("run %s: %w", by.RunID, err)
	}
	return !calling.Status.HasEnded(), nil
}

// WithoutTurns removes from runs, which are about to be deleted, each turn of a conversation that a
// later turn may still read: a later turn that has not ended, or one that failed and is not among
// runs.
func WithoutTurns(ctx context.Context, store snapshot.Reader, runs []*snapshot.Info) ([]*snapshot.Info, error) {
	if !slices.ContainsFunc(runs, isTurn) {
		return runs, nil
	}
	deleted := make(map[string]bool, len(runs))
	for _, info := range runs {
		deleted[info.RunID] = true
	}
	readers := make(map[string]time.Time) // when the last reader was created, by conversation tag
	for info, err := range snapshot.Runs(ctx, store, snapshot.Filter{Status: []snapshot.Status{
		snapshot.StatusQueued, snapshot.StatusRunning, snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusFailed,
	}}) {
		if err != nil {
			return nil, err
		}
		if deleted[info.RunID] {
			continue
		}
		for _, tag := range info.Metadata.Tags {
			if isConversation(tag) && info.Created.After(readers[tag]) {
				readers[tag] = info.Created
			}
		}
	}
	return slices.DeleteFunc(runs, func(i *snapshot.Info) bool {
		return slices.ContainsFunc(i.Metadata.Tags, func(tag string) bool { return i.Created.Before(readers[tag]) })
	}), nil
}

// Together groups runs that are to be deleted: the turns of a conversation form a group, in which
// later turns come first, and each other run has its own. If a turn is kept after all, the turns
// behind it in its group must be kept, too, since that turn may read them.
func Together(runs []*snapshot.Info) (groups [][]*snapshot.Info) {
	places := make(map[string]int) // by conversation tag
	for _, info := range runs {
		i := slices.IndexFunc(info.Metadata.Tags, isConversation)
		if i < 0 {
			groups = append(groups, []*snapshot.Info{info})
			continue
		}
		tag := info.Metadata.Tags[i]
		place, ok := places[tag]
		if !ok {
			place = len(groups)
			places[tag], groups = place, append(groups, nil)
		}
		groups[place] = append(groups[place], info)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b *snapshot.Info) int { return b.Created.Compare(a.Created) })
	}
	return groups
}

// conversationTag is the prefix of the tag with which package conversation marks the turns of a
// conversation.
const conversationTag = "conversation:"

func isConversation(tag string) bool { return strings.HasPrefix(tag, conversationTag) }

// isTurn reports whether a run is a turn of a conversation.
func isTurn(i *snapshot.Info) bool { return slices.ContainsFunc(i.Metadata.Tags, isConversation) }
