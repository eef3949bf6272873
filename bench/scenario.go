package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/reprise-go/reprise/printer"
)

// A scenario is a task and its contestants.
type scenario struct {
	name          string
	title         string
	peer          string // the lib with which the others are compared
	attempts      int    // attempts that each call makes
	fixed         int    // calls per round; 0 to choose a number that takes about roundTime
	roundsDivisor int    // the number of rounds is divided by it; 0 means all rounds
	unit          unit   // unit in the table
	contestants   []contestant
	postgres      []contestant // contestants that need PostgreSQL, skipped if it is not found
}

// all returns the contestants that can run on this machine.
func (s scenario) all() []contestant {
	if _, err := postgresBin(); err != nil {
		return s.contestants
	}
	return slices.Concat(s.contestants, s.postgres)
}

// A unit is the unit in which times are shown.
type unit int

const (
	inNanoseconds unit = iota
	inMilliseconds
	perSecond
	runsPerSecond
)

// A contestant is one way to do the task.
type contestant struct {
	lib string
	// start prepares an instance whose calls run w. It may set w.boom.
	start func(ctx context.Context, w *work) instance
}

func (c contestant) String() string { return c.lib }

// An instance is a contestant that has started.
type instance struct {
	call     func() (int, error) // must return the answer
	stop     func() error        // nil if there is nothing to stop; returns an error if something went wrong
	notified func() int          // number of listener calls; nil without listeners

	reset    func() error // called before each call, not measured; nil if not needed
	parallel int          // number of concurrent callers; 0 means one
	size     int          // bytes that a call writes or reads; 0 if none are counted
}

const (
	attempts       = 3           // maximum attempts of a call
	attemptTimeout = time.Second // timeout of an attempt, in Timeout
	answer         = 42          // input and output of handlers
)

// work is the handler of an instance.
type work struct {
	calls int
	boom  error // error with which handlers fail, marked as the library requires
	heard int   // counted by listeners
}

var errBoom = errors.New("boom")

// succeed is the handler for Success.
func (w *work) succeed(_ context.Context, in int) (int, error) {
	w.calls++
	return in, nil
}

// look is the handler of Timeout.
func (w *work) look(ctx context.Context, in int) (int, error) {
	w.calls++
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	default:
		return in, nil
	}
}

// succeedThird is the handler of TwoFailures.
func (w *work) succeedThird(_ context.Context, in int) (int, error) {
	if w.calls++; w.calls%3 != 0 {
		return 0, w.boom
	}
	return in, nil
}

// begin creates an instance with its own work, and returns a function that cancels the instance's
// context.
func (c contestant) begin() (instance, *work, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &work{boom: errBoom}
	return c.start(ctx, w), w, cancel
}

var scenarios = []scenario{
	{
		name: "Success", title: "The handler succeeds at once", peer: "failsafe-listeners", attempts: 1,
		contestants: []contestant{
			{"reprise", startReprise((*work).succeed, 0)},
			{"reprise-run", startRun((*work).succeed, 0)},
			{"reprise-run-listener", startRunListener((*work).succeed, 0)},
			{"reprise-run-subscriber", startRunSubscriber((*work).succeed, 0)},
			{"failsafe", startFailsafe((*work).succeed)},
			{"failsafe-listeners", startFailsafeListeners((*work).succeed)},
			{"cenkalti", startCenkalti((*work).succeed)},
			{"avast", startAvast((*work).succeed)},
			{"sethvargo", startSethvargo((*work).succeed)},
			{"sethvargo-unlimited", startSethvargoUnlimited((*work).succeed)},
			{"loop", startLoop((*work).succeed, once)},
		},
	},
	{
		name: "Timeout", title: "The handler succeeds at once, each attempt limited to a second", peer: "loop", attempts: 1,
		contestants: []contestant{
			{"reprise", startReprise((*work).look, attemptTimeout)},
			{"reprise-run", startRun((*work).look, attemptTimeout)},
			{"reprise-run-listener", startRunListener((*work).look, attemptTimeout)},
			{"reprise-run-subscriber", startRunSubscriber((*work).look, attemptTimeout)},
			{"failsafe", startFailsafeTimeout((*work).look)},
			{"loop", startLoop((*work).look, limited)},
			{"loop-abandon", startLoop((*work).look, abandonable)},
		},
	},
	{
		name: "TwoFailures", title: "Two failures without delay, then success", peer: "failsafe", attempts: 3,
		contestants: []contestant{
			{"reprise", startReprise((*work).succeedThird, 0)},
			{"reprise-run", startRun((*work).succeedThird, 0)},
			{"failsafe", startFailsafe((*work).succeedThird)},
			{"cenkalti", startCenkalti((*work).succeedThird)},
			{"avast", startAvast((*work).succeedThird)},
			{"sethvargo", startSethvargo((*work).succeedThird)},
			{"sethvargo-unlimited", startSethvargoUnlimited((*work).succeedThird)},
			{"loop", startLoop((*work).succeedThird, once)},
		},
	},
	{
		name: "TwoFailuresListeners", title: "Two failures without delay, then success, with listeners", peer: "failsafe-listeners", attempts: 3,
		contestants: []contestant{
			{"reprise-run-listener", startRunListener((*work).succeedThird, 0)},
			{"reprise-run-subscriber", startRunSubscriber((*work).succeedThird, 0)},
			{"failsafe-listeners", startFailsafeListeners((*work).succeedThird)},
			{"cenkalti-notify", startCenkaltiNotify((*work).succeedThird)},
			{"avast-onretry", startAvastOnRetry((*work).succeedThird)},
			{"loop-hook", startLoopHook((*work).succeedThird)},
		},
	},
	{
		name: "Encode", title: "The record of a failed attempt is encoded", peer: "msgpack", attempts: 1, roundsDivisor: 2,
		contestants: encoders,
	},
	{
		name: "Decode", title: "The record is decoded", peer: "msgpack", attempts: 1, roundsDivisor: 2,
		contestants: decoders,
	},
	{
		name: "Print", title: "A record is printed to a file", peer: "fprintln", attempts: 1, roundsDivisor: 2,
		contestants: []contestant{
			{"reprise", startPrinter()},
			{"reprise-compact", startPrinter(printer.WithCompact())},
			{"fprintln", startFprintln},
		},
	},
	{
		name: "Durable", title: "The outcome of each call is stored durably", peer: "bare", attempts: 1,
		fixed: durableCalls, roundsDivisor: 3, unit: perSecond,
		contestants: []contestant{
			{"reprise", startDurable(1)},
			{"reprise-16", startDurable(callers)},
			{"bare", startKeeper(openBare, 1)},
			{"bare-16", startKeeper(openBare, callers)},
			{"sqlite", startKeeper(openSQLiteKeeper, 1)},
			{"sqlite-16", startKeeper(openSQLiteKeeper, callers)},
			{"bbolt", startKeeper(openBbolt, 1)},
			{"bbolt-16", startKeeper(openBbolt, callers)},
			{"bbolt-batch-16", startKeeper(openBboltBatch, callers)},
		},
		postgres: []contestant{
			{"reprise-postgres", startDurablePostgres(1)},
			{"reprise-postgres-16", startDurablePostgres(callers)},
			{"pgx", startInserts(1)},
			{"pgx-16", startInserts(callers)},
			{"dbos", startDBOSSteps},
		},
	},
	{
		name: runsName, title: "2,000 runs of one call are started and ended, 64 at a time", peer: runsPeer, attempts: runsOfCall,
		fixed: 1, roundsDivisor: 8, unit: runsPerSecond,
		contestants: []contestant{
			{"reprise", startService(runsOfCall, openRunner(oneCall))},
			{"reprise-step", startService(runsOfCall, openRunner(oneStep))},
		},
		postgres: []contestant{
			{"reprise-postgres", startService(runsOfCall, openPostgres(oneCall, 1))},
			{"reprise-postgres-step", startService(runsOfCall, openPostgres(oneStep, 1))},
			{runsPeer, startService(runsOfCall, openRiver(1))},
			{"dbos", startService(runsOfCall, openDBOS)},
		},
	},
	{
		name: workersName, title: "1,000 runs of one call are started and finished by 1, 2 and 4 workers, 64 at a time", peer: runsPeer, attempts: runsOfWorker,
		fixed: 1, roundsDivisor: 8, unit: runsPerSecond,
		contestants: []contestant{
			{"reprise-jetstream", startService(runsOfWorker, openJetStream(1, false))},
			{"reprise-jetstream-2", startService(runsOfWorker, openJetStream(2, false))},
			{"reprise-jetstream-4", startService(runsOfWorker, openJetStream(4, false))},
			{"reprise-jetstream-always", startService(runsOfWorker, openJetStream(1, true))},
			{"reprise-jetstream-always-2", startService(runsOfWorker, openJetStream(2, true))},
			{"reprise-jetstream-always-4", startService(runsOfWorker, openJetStream(4, true))},
		},
		postgres: []contestant{
			{"reprise-postgres", startService(runsOfWorker, openPostgres(oneCall, 1))},
			{"reprise-postgres-2", startService(runsOfWorker, openPostgres(oneCall, 2))},
			{"reprise-postgres-4", startService(runsOfWorker, openPostgres(oneCall, 4))},
			{runsPeer, startService(runsOfWorker, openRiver(1))},
			{"river-2", startService(runsOfWorker, openRiver(2))},
			{"river-4", startService(runsOfWorker, openRiver(4))},
			{"dbos", startService(runsOfWorker, openDBOS)},
		},
	},
	{
		name: "Replay1000", title: "An agent makes 1,000 calls that are recalled", peer: "sqlite", attempts: 1,
		fixed: 1, roundsDivisor: 4, unit: inMilliseconds, contestants: replayers(1000),
	},
	{
		name: "Replay10000", title: "An agent makes 10,000 calls that are recalled", peer: "sqlite", attempts: 1,
		fixed: 1, roundsDivisor: 4, unit: inMilliseconds, contestants: replayers(10_000),
	},
	{
		name: groupName, title: "10,000 calls that succeed at once, 50 at a time", peer: "errgroup", attempts: groupCalls,
		fixed: 2, roundsDivisor: 2, unit: inMilliseconds, contestants: groups,
	},
	{
		name: "LLM", title: "A model on loopback answers at once", peer: "go-openai", attempts: 1, roundsDivisor: 2,
		contestants: []contestant{
			{"reprise", llmInstance(callReprise)},
			{"reprise-run", llmInstance(callRepriseRun)},
			{"go-openai", llmInstance(callGoOpenAI)},
			{"genkit", llmInstance(callGenkit)},
		},
	},
	{
		name: "LLMStream", title: "A model on loopback streams 500 chunks at once", peer: "go-openai", attempts: 1, roundsDivisor: 2,
		contestants: []contestant{
			{"reprise-watch", llmInstance(streamRepriseWatch)},
			{"reprise-iterator", llmInstance(streamRepriseIterator)},
			{"go-openai", llmInstance(streamGoOpenAI)},
		},
	},
	{
		name: "LLMAgent", title: "An agent of ten turns, nine of which call a tool, with a model on loopback", peer: "go-openai", attempts: 1, roundsDivisor: 2,
		contestants: []contestant{
			{"reprise", llmInstance(agentReprise)},
			{"go-openai", llmInstance(agentGoOpenAI)},
			{"eino", llmInstance(agentEino)},
			{"adk", llmInstance(agentADK)},
			{"genkit", llmInstance(agentGenkit)},
		},
	},
}

// handler is a method of work.
type handler func(w *work, ctx context.Context, in int) (int, error)

// bind returns a function with the usual handler signature.
func (h handler) bind(w *work) func(context.Context, int) (int, error) {
	return func(ctx context.Context, in int) (int, error) { return h(w, ctx, in) }
}

// bindAll is like bind, but also binds the context and the input, for libraries whose functions
// have no parameters.
func (h handler) bindAll(ctx context.Context, w *work) func() (int, error) {
	return func() (int, error) { return h(w, ctx, answer) }
}
