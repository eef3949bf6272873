package conversation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// These keys in the metadata of a turn are for the ID of its conversation, the number of the last
// completed turn before it, and the maximum number of messages in its history. The two numbers
// ensure that a turn has the same history whenever it is continued. A turn of a [Program] has no
// maximum of its own.
const (
	threadKey = "conversation"
	afterKey  = "conversation.after"
	maxKey    = "conversation.max"
)

// MessageKey is the key in the metadata of a turn for the ID that the sender gave to the message;
// see [State]. The code that starts a [Turn] may set it.
const MessageKey = "conversation.message"

// A thread is a conversation in a store.
type thread struct {
	store snapshot.Store
	id    string
	read  map[int]turnMessages // the turns of the most recently read history, by number; nil to keep none
}

// turnMessages holds the messages of a completed turn.
type turnMessages struct {
	created  time.Time // creation of the turn's run; a number is reused if the last turn is removed
	messages []actors.Message
}

// tag returns the tag of the conversation's runs.
func (t thread) tag() string { return "conversation:" + t.id }

func (t thread) runID(turn int) string { return fmt.Sprintf("%s-%04d", t.id, turn) }

// turnOf returns the number of the turn with the given run ID, or 0 if the run is not a turn.
func (t thread) turnOf(runID string) int {
	digits, ok := strings.CutPrefix(runID, t.id+"-")
	turn, err := strconv.Atoi(digits)
	if !ok || err != nil || t.runID(turn) != runID {
		return 0
	}
	return turn
}

func (t thread) metadata(after int, pipeline string) snapshot.Metadata {
	return snapshot.Metadata{
		Tags: []string{t.tag()}, Pipeline: pipeline,
		Custom: map[string]string{threadKey: t.id, afterKey: strconv.Itoa(after)},
	}
}

// info returns the info of a turn, and whether the turn exists.
func (t thread) info(ctx context.Context, turn int) (info snapshot.Info, found bool, err error) {
	info, err = t.store.Info(ctx, t.runID(turn))
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return info, false, nil
	case err != nil:
		return info, false, err
	case !slices.Contains(info.Metadata.Tags, t.tag()):
		return info, false, fmt.Errorf("run %s exists but is not a turn of this conversation", info.RunID)
	}
	return info, true, nil
}

// last returns the number of the last turn, or 0 if there is none. Since any turn may have been
// removed, a search by number might not find the last one. If the last two turns are also the two
// most recently updated ones, a store need not list more.
func (t thread) last(ctx context.Context) (last int, err error) {
	isTurn := func(runID string) bool { return t.turnOf(runID) > 0 } // so that the store need not examine all runs
	f := snapshot.Filter{Tags: []string{t.tag()}, Only: isTurn, Limit: 2}
	page, err := t.store.List(ctx, f)
	if err == nil && len(page.Runs) == 2 && !page.Runs[1].Updated.Before(page.Runs[0].Created) {
		// An earlier turn was changed, so the last turn may not be on the page. If no earlier turn
		// was changed, the last turn is on the page: it was created, and therefore updated, after
		// the second run on the page was updated.
		f.Limit = 0
		page, err = t.store.List(ctx, f)
	}
	if err != nil {
		return 0, err
	}
	for i := range page.Runs {
		last = max(last, t.turnOf(page.Runs[i].RunID))
	}
	for { // the list may be out of date
		_, found, err := t.info(ctx, last+1)
		if err != nil || !found {
			return last, err
		}
		last++
	}
}

// afterOf returns, for a turn that has ended, the last completed turn before its successor: the
// turn itself if it completed; otherwise the last completed turn before it.
func (t thread) afterOf(info *snapshot.Info) int {
	if info.Status == snapshot.StatusCompleted {
		return t.turnOf(info.RunID)
	}
	return lastCompletedBefore(&info.Metadata)
}

// lastCompletedBefore returns the last completed turn before the turn with the given metadata.
func lastCompletedBefore(metadata *snapshot.Metadata) int {
	after, _ := strconv.Atoi(metadata.Custom[afterKey])
	return max(after, 0)
}

// maxMessagesOf returns the maximum number of messages in the history of the turn with the given
// metadata. If the turn has no maximum of its own, it returns otherwise.
func maxMessagesOf(metadata *snapshot.Metadata, otherwise int) int {
	if most, err := strconv.Atoi(metadata.Custom[maxKey]); err == nil && most > 0 {
		return most
	}
	return otherwise
}

// closeTime is how long settledInfo waits for a run to be closed.
const closeTime = 2 * time.Second

// settledInfo is like info. If the turn is just ending, settledInfo waits, since a
// client that has seen the answer may continue before the end of the turn is stored, or before
// another process has closed the run after a kill.
func (t thread) settledInfo(ctx context.Context, turn int) (info snapshot.Info, found bool, err error) {
	info, found, err = t.info(ctx, turn)
	if err != nil || !found || info.Status.HasEnded() || !info.Open && info.Stop.Reason != record.InterruptCrash {
		return info, found, err
	}
	if ends, err := t.ends(ctx, turn); err != nil || !ends {
		return info, found, err
	}
	waiting, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	for event, err := range t.store.Watch(waiting, snapshot.WatchOptions{RunID: info.RunID}) {
		if err != nil || event.Info.Status.HasEnded() {
			break
		}
	}
	return t.info(ctx, turn)
}

// ends reports whether the records show that a turn or its agent has ended.
func (t thread) ends(ctx context.Context, turn int) (bool, error) {
	run, err := t.store.Load(ctx, t.runID(turn))
	if err != nil || run.Len() == 0 {
		return false, err
	}
	last, err := run.Record(uint64(run.Len()))
	if err != nil {
		return false, err
	}
	if last.Kind == record.KindRun {
		switch last.Status {
		case record.StatusCompleted, record.StatusFailed, record.StatusCancelled:
			return true, nil
		}
	}
	_, ended, err := t.prompt(ctx, turn)
	return ended, err
}

// history returns the last messages of a turn and of the earlier turns in its history. It returns
// at most the given number of messages.
func (t thread) history(ctx context.Context, turn, most int) ([]actors.Message, error) {
	var all [][]actors.Message
	for n := 0; turn > 0 && n < most; {
		info, found, err := t.info(ctx, turn)
		if err != nil {
			return nil, err
		}
		if !found { // the turn was removed; messages from before it would not fit later ones
			break
		}
		whole, err := t.messages(ctx, turn, &info)
		if err != nil {
			return nil, err
		}
		messages := shortened(whole, most)
		if len(messages) == 0 && len(whole) > 0 { // treated like a removed turn
			break
		}
		all, n = append(all, messages), n+len(messages)
		turn = lastCompletedBefore(&info.Metadata)
	}
	maps.DeleteFunc(t.read, func(n int, _ turnMessages) bool { return n <= turn })
	slices.Reverse(all)
	return lastMessages(slices.Concat(all...), most), nil
}

// messages returns the messages of a completed turn.
func (t thread) messages(ctx context.Context, turn int, info *snapshot.Info) ([]actors.Message, error) {
	if read, ok := t.read[turn]; ok && read.created.Equal(info.Created) {
		return read.messages, nil
	}
	answer, err := state.Result[actors.Answer](ctx, t.store, info.RunID)
	if err == nil && t.read != nil {
		t.read[turn] = turnMessages{info.Created, answer.Messages}
	}
	return answer.Messages, err
}

// lastMessages returns the last messages, at most the given number. The first one it returns is
// always from the user.
func lastMessages(messages []actors.Message, most int) []actors.Message {
	first := max(0, len(messages)-most)
	for first < len(messages) && messages[first].Role != actors.RoleUser {
		first++
	}
	return messages[first:]
}

// shortened returns at most the given number of messages of a turn. If the turn has more, it
// returns the question and as many messages from the end as fit. These begin with a message from
// the model, so that no call lacks its result and no result lacks its call.
func shortened(turn []actors.Message, most int) []actors.Message {
	if len(turn) <= most {
		return turn
	}
	for i := len(turn) - most + 1; i < len(turn); i++ {
		if turn[i].Role == actors.RoleAssistant {
			return slices.Concat(turn[:1], turn[i:])
		}
	}
	return nil
}

// prompt returns the prompt of a turn, and whether the agent has ended with nothing left to
// compensate. If the process ended before the prompt was recorded, the prompt is nil.
func (t thread) prompt(ctx context.Context, turn int) (prompt *actors.Prompt, ended bool, err error) {
	run, err := t.store.Load(ctx, t.runID(turn))
	if err != nil {
		return nil, false, err
	}
	var agent record.Address
	var failed, compensable bool
	for rec, err := range run.Records() {
		if err != nil {
			return nil, false, err
		}
		isInput := rec.Kind == record.KindRun && rec.Status == record.StatusRecorded || rec.Kind == record.KindAgent
		if prompt == nil && isInput && rec.Detail != nil && len(rec.Detail.Input) > 0 {
			prompt = new(actors.Prompt)
			if err := record.Decode(rec.Detail.Input, prompt); err != nil {
				return nil, false, fmt.Errorf("its input: %w", err)
			}
		}
		if rec.Kind == record.KindAgent && agent.IsZero() {
			agent = rec.Address
		}
		if !agent.IsZero() && rec.Address == agent {
			ended, failed = rec.IsOutcome(), rec.Status == record.StatusFailed // the agent has not ended if it is tried again
		}
		compensable = compensable || rec.Detail != nil && rec.Detail.Compensable
	}
	return prompt, ended && (!failed || !compensable), nil
}
