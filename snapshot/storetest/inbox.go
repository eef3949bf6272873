package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// inboxTests check the rules of a snapshot.Inbox.
var inboxTests = []test{
	{"AMessageWaitsUntilItIsRemoved", messageWaits},
	{"EveryFieldOfAMessageComesBack", messageFields},
	{"OfMessagesWithOneIDTheFirstCounts", firstMessage},
	{"OneOfManyConcurrentPostsSucceeds", manyPost},
	{"MessagesComeInTheOrderOfTheirTimes", messageOrder},
	{"AnInvalidMessageIsRefused", noMessage},
	{"AMissingRunTakesNoMessage", noInbox},
	{"MessagesStayOverOpeningAndClosing", messagesStay},
	{"MessagesGoWithTheirRun", messagesGo},
	{"TheOwnerIsNotifiedOfMessages", notifies},
	{"AnInboxHonoursItsContext", inboxEnds},
}

func (f *fixture) messages(runID string) []snapshot.Message {
	f.Helper()
	all, err := f.store.Messages(f.Context(), runID)
	f.must(err)
	return all
}

// Answer returns a message that answers the question with the given name.
func Answer(question, value string) snapshot.Message {
	address, _ := record.ParseAddress("assistant/refund")
	return snapshot.Message{Record: record.Record{
		Time: time.Unix(1_700_000_000, 7).UTC(), Address: address, Name: question,
		Kind: record.KindAnswer, Status: record.StatusRecorded, Detail: &record.Detail{Output: []byte(value)},
	}}
}

// Interrupt returns a message that interrupts a generation.
func Interrupt(generation uint64, text string) snapshot.Message {
	return snapshot.Message{Generation: generation, Record: record.Record{
		Time: time.Unix(1_700_000_001, 8).UTC(), Kind: record.KindRun, Status: record.StatusInterrupted,
		Err: &record.InterruptedError{Reason: record.InterruptUser, Message: text, By: "ops"},
	}}
}

// valueOf returns the value of an answer.
func valueOf(m snapshot.Message) string { return string(m.Record.Encoded()) }

func messageWaits(f *fixture) {
	in := f.store
	f.begin("run", 1, snapshot.StatusPaused)
	f.begin("other", 1, snapshot.StatusPaused)
	if all := f.messages("run"); len(all) > 0 {
		f.Fatalf("%d messages wait although none was posted", len(all))
	}
	m := Answer("refund?1", "yes")
	f.must(in.Post(f.Context(), "run", m))
	for range 2 {
		if all := f.messages("run"); len(all) != 1 || valueOf(all[0]) != "yes" || all[0].ID() != m.ID() {
			f.Fatalf("the waiting messages are %+v", all)
		}
	}
	if all := f.messages("other"); len(all) > 0 {
		f.Errorf("another run has %d messages", len(all))
	}
	f.must(in.Remove(f.Context(), "run", m.ID()))
	f.must(in.Remove(f.Context(), "run", m.ID()))
	if all := f.messages("run"); len(all) > 0 {
		f.Errorf("%d messages are left", len(all))
	}
	f.equal(f.load("run").Records, Records(1, 1), "run")
}

func messageFields(f *fixture) {
	in := f.store
	f.begin("run", 1, snapshot.StatusPaused)
	answer, interrupt := Answer("größe/refund?1", "\x00\xff"), Interrupt(3, "deploy")
	f.must(in.Post(f.Context(), "run", answer))
	f.must(in.Post(f.Context(), "run", interrupt))
	all := f.messages("run")
	if len(all) != 2 || all[0].Generation != 0 || all[1].Generation != 3 {
		f.Fatalf("the waiting messages are %+v", all)
	}
	f.equal([]record.Record{all[0].Record}, []record.Record{answer.Record}, "run")
	if e := all[1].Record.Interrupt(); e == nil || e.Reason != record.InterruptUser || e.Message != "deploy" || e.By != "ops" {
		f.Errorf("the interrupt is %+v", e)
	}
	all[1].Record.Err, interrupt.Record.Err = nil, nil
	f.equal([]record.Record{all[1].Record}, []record.Record{interrupt.Record}, "run")
}

func firstMessage(f *fixture) {
	in := f.store
	f.begin("run", 1, snapshot.StatusPaused)
	f.must(in.Post(f.Context(), "run", Answer("a?1", "first")))
	f.is(in.Post(f.Context(), "run", Answer("a?1", "second")), snapshot.ErrPosted, "Post again")
	f.must(in.Post(f.Context(), "run", Answer("a?2", "another question")))
	f.must(in.Post(f.Context(), "run", Interrupt(1, "first")))
	f.is(in.Post(f.Context(), "run", Interrupt(1, "second")), snapshot.ErrPosted, "Post again")
	f.must(in.Post(f.Context(), "run", Interrupt(2, "another generation")))
	all := f.messages("run")
	if len(all) != 4 || !slices.ContainsFunc(all, func(m snapshot.Message) bool { return valueOf(m) == "first" }) {
		f.Errorf("the waiting messages are %+v", all)
	}
	first := Answer("a?1", "")
	f.must(in.Remove(f.Context(), "run", first.ID()))
	f.must(in.Post(f.Context(), "run", Answer("a?1", "third")))
}

func manyPost(f *fixture) {
	in := f.store
	f.begin("run", 1, snapshot.StatusPaused)
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		won  []string
	)
	for n := range 16 {
		wait.Go(func() {
			value := fmt.Sprint("answer ", n)
			err := in.Post(f.Context(), "run", Answer("a?1", value))
			switch {
			case err == nil:
				mu.Lock()
				won = append(won, value)
				mu.Unlock()
			case !errors.Is(err, snapshot.ErrPosted):
				f.Error(err)
			}
		})
	}
	wait.Wait()
	if all := f.messages("run"); len(won) != 1 || len(all) != 1 || valueOf(all[0]) != won[0] {
		f.Errorf("accepted: %v; waiting: %+v; want the same single message in both", won, all)
	}
}

func messageOrder(f *fixture) {
	f.begin("run", 1, snapshot.StatusPaused)
	for _, n := range []int{3, 1, 4, 2, 0} {
		m := Answer(fmt.Sprint("a?", n), fmt.Sprint(n))
		m.Record.Time = m.Record.Time.Add(time.Duration(n) * time.Minute)
		f.must(f.store.Post(f.Context(), "run", m))
	}
	got := ""
	for _, m := range f.messages("run") {
		got += valueOf(m)
	}
	if got != "01234" {
		f.Errorf("the order of the messages is %s", got)
	}
}

func noMessage(f *fixture) {
	in := f.store
	f.begin("run", 1, snapshot.StatusPaused)
	forOne := Answer("a?1", "yes")
	forOne.Generation = 1
	for name, m := range map[string]snapshot.Message{
		"nothing":                        {},
		"another record":                 {Record: Records(1, 1)[0]},
		"an answer to nothing":           Answer("", "yes"),
		"an answer without a value":      Answer("a?1", ""),
		"an answer for one generation":   forOne,
		"an interrupt for no generation": Interrupt(0, "stop"),
		"an interrupt without its error": {Generation: 1, Record: record.Record{Kind: record.KindRun, Status: record.StatusInterrupted}},
	} {
		if err := in.Post(f.Context(), "run", m); err == nil {
			f.Errorf("%s was posted", name)
		}
	}
	if all := f.messages("run"); len(all) > 0 {
		f.Errorf("the waiting messages are %+v", all)
	}
}

func noInbox(f *fixture) {
	in := f.store
	f.is(in.Post(f.Context(), "none", Answer("a?1", "yes")), snapshot.ErrNotFound, "Post")
	_, err := in.Messages(f.Context(), "none")
	f.is(err, snapshot.ErrNotFound, "Messages")
	for _, id := range []string{"", "../run", "a/b"} {
		if err := in.Post(f.Context(), id, Answer("a?1", "yes")); err == nil {
			f.Errorf("Post to the run %q, which does not exist, succeeded", id)
		}
		if _, err := in.Messages(f.Context(), id); err == nil {
			f.Errorf("Messages of the run %q, which does not exist, succeeded", id)
		}
	}
	if ids := f.list(snapshot.Filter{}); len(ids) > 0 {
		f.Errorf("a post to a run that does not exist created it: %v", ids)
	}
}

func messagesStay(f *fixture) {
	in := f.store
	j := f.open("run")
	f.must(j.Append(Records(1, 2)...))
	f.must(in.Post(f.Context(), "run", Answer("a?1", "yes")))
	f.must(j.Append(Records(3, 1)...))
	f.must(closeAs(j, snapshot.StatusPaused))
	if all := f.messages("run"); len(all) != 1 {
		f.Errorf("the waiting messages are %+v", all)
	}
	j = f.open("run")
	f.must(j.Append(Records(4, 1)...))
	if all := f.messages("run"); len(all) != 1 || valueOf(all[0]) != "yes" {
		f.Errorf("the waiting messages are %+v", all)
	}
	f.must(closeAs(j, snapshot.StatusPaused))
	f.equal(f.load("run").Records, Records(1, 4), "run")
}

func messagesGo(f *fixture) {
	f.begin("run", 1, snapshot.StatusPaused)
	f.must(f.store.Post(f.Context(), "run", Answer("a?1", "yes")))
	f.must(f.store.Delete(f.Context(), "run"))
	_, err := f.store.Messages(f.Context(), "run")
	f.is(err, snapshot.ErrNotFound, "Messages")
	f.begin("run", 1, snapshot.StatusPaused)
	if all := f.messages("run"); len(all) > 0 {
		f.Errorf("the new run with the ID of the deleted one has the messages %+v", all)
	}
}

func notifies(f *fixture) {
	j := f.open("run")
	until := func(what string) {
		f.Helper()
		select {
		case <-j.Notify():
		case <-time.After(time.Minute):
			f.Fatalf("not notified: %s", what)
		}
	}
	f.must(f.store.Post(f.Context(), "run", Answer("a?1", "yes")))
	for len(f.messages("run")) == 0 {
		until("a message was posted")
	}
	f.must(f.store.Post(f.Context(), "run", Answer("a?2", "no")))
	for len(f.messages("run")) < 2 {
		until("another message was posted")
	}
	f.must(closeAs(j, snapshot.StatusPaused))
}

func inboxEnds(f *fixture) {
	f.begin("run", 1, snapshot.StatusPaused)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	f.is(f.store.Post(ctx, "run", Answer("a?1", "yes")), context.Canceled, "Post")
	_, err := f.store.Messages(ctx, "run")
	f.is(err, context.Canceled, "Messages")
	f.is(f.store.Remove(ctx, "run", "answer-1"), context.Canceled, "Remove")
}
