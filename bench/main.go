// Command bench compares Reprise with similar libraries: its calls with failsafe-go,
// cenkalti/backoff, avast/retry-go, sethvargo/go-retry and hand-written loops; its storage with
// SQLite, bbolt, PostgreSQL and a plain file; its queue with River and DBOS; its agents with eino,
// ADK and genkit; and its event streams with r3labs/sse and tmaxmax/go-sse.
//
//	go run .                          prints the tables, in four or five minutes
//	go run . -only 'Success|Sleepers'
//	go test -bench . -count 10        runs the same contestants for benchstat
//
// # Calls
//
// All contestants in a scenario make the same call, with the same handler, the same cancellable
// context, at most three attempts and the same delays.
//
//   - Success: the handler succeeds at once.
//   - Timeout: the same, with a limit of one second for each attempt. The handler checks
//     ctx.Done, but does not wait for it.
//   - TwoFailures: the handler fails twice and then succeeds. There are no delays.
//   - TwoFailuresListeners: the same, with a listener that counts everything that the library
//     reports. go-retry has no listeners.
//   - Sleepers: many calls that have failed once wait for an hour, each in its own goroutine,
//     in a separate process.
//
// The contestants are:
//
//   - reprise: a call outside a run. Nothing is recorded.
//   - reprise-run: a call in a run without a store. Each call adds 2 records to the history (8
//     with two failures). A run has 10,000 calls; then a new one begins.
//   - reprise-run-listener: the same, and the run passes each record to a publisher in the
//     caller's goroutine, just as the peers call their listeners.
//   - reprise-run-subscriber: the same, and a bus passes each record to a subscriber, which
//     counts them in its own goroutine. It never misses a record: if it falls behind, the run
//     waits.
//   - failsafe: its retry policy (and, in Timeout, its timeout policy).
//   - failsafe-listeners: the same, with all its listeners set.
//   - cenkalti, avast, sethvargo: used as documented.
//   - sethvargo-unlimited: go-retry counts attempts in a value that must be created for each
//     call. This contestant omits that value, as a program that never gives up can.
//   - loop: a loop as people write it without a library.
//   - loop-abandon: the same loop with a goroutine for each attempt.
//
// Everything that a library can prepare once is prepared once. This favors the peers: their
// functions take no input, so real programs create a closure for each call. Errors are created in
// advance.
//
// # Storage
//
//   - Encode and Decode: the record of a failed fourth attempt, with snapshot.AppendRecord into
//     a reused buffer and with snapshot.DecodeRecord. The error in reprise-live is one that a
//     handler has returned, not one that was read from a record. reprise-new-address decodes
//     records of 2,000 calls in turn, so that none of their addresses are in the cache. msgpack
//     and json marshal a plain struct with the same fields, including the field names.
//   - Print: printer.New(file).Publish prints records to a file. Seven of the eight records of
//     a call have lines: two failures with their waits, and a success. fprintln writes the same
//     lines, prepared in advance.
//   - Durable: calls in a run in a filestore.Store with SyncOutcomes: two appends and one fsync
//     for each call. To store as much data, bare does one append and one fsync, sqlite inserts
//     a row, and bbolt puts a key, each in a transaction; reprise-postgres makes the calls in a
//     run of a postgres.Store, and pgx inserts a row in a transaction. Names that end with -16
//     have 16 callers. SQLite allows one writer, so its callers wait for the connection. With
//     bbolt-batch-16, concurrent callers share a transaction, as with Reprise. dbos runs a
//     workflow that makes one step after the other.
//   - SQLite uses a log (WAL) with synchronous=FULL. The log has its full size from the start,
//     as does the file of bbolt, so commits do not make files grow; the appends of bare and
//     reprise do.
//   - Replay1000 and Replay10000: an agent that made that many calls in a loop recalls all of
//     them. It was stopped after the last call, because an agent that has ended would itself be
//     recalled. reprise measures state.Open on a fresh copy of the run, including syncs, until
//     the agent returns; reprise-replay measures state.Replay, which writes nothing. Closing is
//     not included. sqlite opens a database and queries it by primary key for each call;
//     sqlite-scan reads all rows in order. Both decode the outputs, as Reprise does.
//   - Record: the time that one more record takes (a call that succeeds at once has two), in
//     histories of 100, 10,000 and 100,000 records: in a run without a store (memory) and in a
//     filestore.Store without syncing (file). Each round measures 256 records 16 times, each
//     time after a garbage collection and 64 records that are not measured.
//
// # Services
//
//   - Runs: 64 goroutines start 2,000 runs of one call that returns its input; 64 slots execute
//     them, until the last run has ended. Starts, beginnings and results are synced. reprise is
//     a runner on a directory; in reprise-step, an agent calls a tool, whose outcome is also
//     synced. river inserts jobs and works on them, with the intervals from its own benchmark.
//     dbos runs workflows of one step; each starter waits for the end of its workflow.
//     reprise-postgres is a runner on a postgres.Store with its queue, on the same server.
//   - Workers: the same, with 1,000 runs and as many workers as the number at the end of the
//     name, or one worker if there is no number. They share the 64 slots, and the first worker
//     starts the runs. Workers are runners with separate stores, or River clients, in one
//     process. reprise-jetstream uses a jetstream.Store and a NATS server in a separate
//     process, which by default syncs every two minutes; if the name contains always, it syncs
//     each message before it acknowledges it.
//   - The PostgreSQL server runs in a separate process with its defaults: fsync and
//     synchronous_commit are on. Its allocations are not counted. Only River Pro stores the
//     results of jobs and has workflows of several steps.
//
// # Groups
//
//   - Group: 10,000 calls of a tool that succeeds at once, 50 at a time, in a new run without a
//     store, which is closed afterwards. reprise is actors.Map; reprise-yield also sets
//     YieldWaits. errgroup is an errgroup.Group with a limit of 50 and a function for each
//     call; its calls get addresses in the order in which they begin, so such a run could not
//     be resumed. errgroup-prepared claims the addresses in order, like a group. loop uses no
//     goroutines.
//
// # Language models
//
// A server on the loopback interface, in the same process, answers at once. Its allocations are
// included; they are the same for all contestants.
//
//   - LLM: one call. reprise is openai.New outside a run, reprise-run in a run without a store;
//     go-openai is CreateChatCompletion.
//   - LLMStream: an answer in 500 chunks, in one write. In reprise-watch, a function of
//     live.Watch counts them; reprise-iterator ranges over actors.Stream, which joins chunks
//     that arrive faster than the loop takes them; go-openai calls Recv in a loop and keeps the
//     text.
//   - LLMAgent: ten turns, nine of which call a tool. reprise is an agent in a run without a
//     store; go-openai is a hand-written loop without checks, records and retries; eino is the
//     ReAct agent of cloudwego/eino with its model for OpenAI. adk is an agent of google/adk-go
//     with a runner and a function tool; each question has its own session in memory, which is
//     deleted afterwards. ADK has no model for chat completions, so it uses an adapter around
//     go-openai that encodes the schema of the tool once. ADK adds the name of the agent to the
//     instructions.
//
// # Event streams
//
// In FanOut1, FanOut100 and FanOut1000, that many clients receive the records of a run as
// server-sent events: about 300 bytes of JSON, with the status as the event's name. The server and
// the clients run in two processes on this machine, which are restarted for each contestant and
// pass.
//
//   - reprise is a streamer.Handler that keeps 16,384 events; r3labs is its Server as
//     documented, which keeps all events; go-sse is its Server with Joe, which keeps no events
//     here. All encode a record once.
//   - All contestants have the same clients, which read sockets, count events, and check that
//     every record arrives once and in order. A contestant that loses records is marked as
//     lost, regardless of its numbers.
//   - First comes a flood, after a warm-up of a quarter of its size. Events are published as
//     fast as the contestant takes them, until the last client has received the last event.
//     deliveries/s is events times clients per second. Then events are published at a fixed
//     rate.
//   - CPU is the server's CPU time per delivery, including the kernel. Latencies are those of
//     at most 100 clients, from the time at which an event was due; if a server cannot keep up,
//     the latencies show the length of its queue.
//   - clients % is the share of the flood's time during which the clients' process was busy. If
//     it is well below 100, the clients were not the bottleneck.
//
// # Results
//
// The contestants of a scenario take turns in many short rounds. Each round begins from a fresh
// state after a garbage collection, and is long enough to include the collections that the
// contestant causes.
//
//   - ns/op, ms/op, ops/s, allocs/op, B/op: medians over the rounds. They include everything
//     that the process does: the subscriber's goroutine, the growth of the history, the
//     handler, and about 2 ns for the measurement.
//   - ratio: the contestant's time divided by the time of the peer named in the heading; the
//     median over the rounds. 25–75 % is the interquartile range.
//   - bytes: the size of a record; in Durable, what a call appends to the journal.
//   - bytes each: the growth of HeapAlloc and StackInuse after two collections, divided by the
//     number of calls or idle clients. It includes goroutines and the buffers of connections.
//   - release: the time from the interrupt (reprise-run) or cancel (all others) until every
//     call has returned.
//
// Times depend on the machine; ratios and allocations depend on it less. The results of this run
// are compared with the project's targets. A missed target does not make the program fail. An
// allocation that is shared by five or more calls, such as a new chunk of history, does not count
// against a target for allocations. Numbers that should be equal may differ by a tenth.
//
// # Differences
//
//   - In a run, Reprise numbers, keeps and publishes what happens. The peers keep nothing;
//     their listeners are called in the caller's goroutine.
//   - Only reprise and loop-abandon return if a handler ignores its context: they run it in a
//     goroutine that can be abandoned. loop and failsafe run it in the caller's goroutine and
//     wait for it. The target for loop takes this into account.
//   - Reprise turns a panic in the handler into an error. The peers and the loops do not; in
//     loop-abandon a panic would end the process.
//   - Reprise and go-retry retry only errors that are marked as retryable or, with Reprise,
//     classified as such. The others retry all errors.
//   - r3labs and go-sse flush each event to each client separately. reprise collects events for
//     5 ms, or 50 ms with 1,000 clients, so its latency is never near zero.
//   - A publisher of r3labs and go-sse waits for the slowest client. If a client has not read
//     an event before reprise drops it, reprise disconnects the client, which then resumes.
//     FanOut's flood has no more events than reprise keeps.
//   - SQLite's memory is not allocated by Go, so allocs/op and B/op do not include it.
//   - Without a delay, Reprise and the loops continue at once. The four peers wait for a timer
//     of zero length.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

var (
	rounds   = flag.Int("rounds", 40, "the number of `rounds` for each scenario; more rounds take longer and give steadier results")
	only     = flag.String("only", "", "measure only contestants that match this `regexp`, such as Success or 'TwoFailures/lib=(reprise|failsafe)'")
	sleepers = flag.Int("sleepers", 100_000, "the `number` of sleeping calls in the scenario Sleepers; 0 omits it")
	profiles = flag.String("profiles", "", "write profiles of FanOut's servers to this `directory`")
	natsDir  = flag.String("nats-server", "", "run as the NATS server for Workers, in the `directory`; the program starts itself in this way")
	natsSync = flag.Bool("nats-sync", false, "with -nats-server, sync each message")
	fanLib   = flag.String("fanout-server", "", "run as FanOut's server for the `lib` and print JSON; the program starts itself in this way")
	fanURL   = flag.String("fanout-clients", "", "run as the clients that read from the `URL`; the program starts itself in this way")
	fanSize  = flag.String("fanout", "", "the workload of -fanout-server and -fanout-clients, as `JSON`")
	child    = flag.String("sleeper-child", "", "measure the `lib` of Sleepers in this process and print JSON; the program starts itself in this way")
)

func main() {
	flag.Parse()
	if isChild, err := runChild(); isChild {
		exitOn(err)
		return
	}
	exitOn(measureAll())
}

// runChild does the work of a child process, if this process was started for that work by another
// process of this program.
func runChild() (isChild bool, err error) {
	switch {
	case *child != "":
		return true, sleeperChild(*child, *sleepers)
	case *natsDir != "":
		return true, natsProcess(*natsDir, *natsSync)
	case *fanLib != "":
		return true, fanOutServer(*fanLib, *fanSize)
	case *fanURL != "":
		return true, fanOutReaders(*fanURL, *fanSize, os.Stdin, os.Stdout)
	}
	return false, nil
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll() error {
	selected, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *rounds < 1 || *sleepers < 0 {
		return fmt.Errorf("-rounds is %d and -sleepers %d; want -rounds of 1 or more and -sleepers of 0 or more", *rounds, *sleepers)
	}
	start := time.Now()
	defer removeScratch()
	defer func() { _ = stopPostgres() }()
	printMachine()
	results := make(map[string]result)
	for _, s := range scenarios {
		all := s.all()
		if left := len(s.contestants) + len(s.postgres) - len(all); left > 0 && len(pick(s.name, s.postgres, contestant.String, selected)) > 0 {
			fmt.Printf("\n%s was measured without %v: %v.\n", s.name, s.postgres, errNoPostgres)
		}
		s.contestants = pick(s.name, all, contestant.String, selected)
		if len(s.contestants) == 0 {
			continue
		}
		r, err := s.measure(*rounds)
		if err != nil {
			return err
		}
		results[s.name] = r
		printScenario(s, r)
	}
	if chosen := pick(recordName, recordContestants, recordContestant.String, selected); len(chosen) > 0 {
		r, err := measureRecordings(chosen, *rounds)
		if err != nil {
			return err
		}
		results[recordName] = r
		printRecordings(chosen, r)
	}
	for _, f := range fanOuts {
		chosen := pick(f.name(), fanOutContestants, fanOutContestant.String, selected)
		if len(chosen) == 0 {
			continue
		}
		if err := checkFileLimit(f.Clients + spareFiles); err != nil {
			fmt.Printf("\n%s was skipped: %v\n", f.name(), err)
			continue
		}
		r, err := measureFanOut(f, chosen)
		if err != nil {
			return err
		}
		results[f.name()] = r
		printFanOut(f, chosen, r)
	}
	chosen := pick(sleepersName, sleeperContestants, sleeperContestant.String, selected)
	if *sleepers > 0 && len(chosen) > 0 {
		r, err := measureSleepers(chosen, *sleepers)
		if err != nil {
			return err
		}
		results[sleepersName] = r
		printSleepers(chosen, r, *sleepers)
	}
	printTargets(results)
	fmt.Printf("\nMeasured in %.0f s.\n", time.Since(start).Seconds())
	return nil
}

// pick returns those contestants whose "scenario/lib=name" matches selected.
func pick[T any](scenario string, all []T, name func(T) string, selected *regexp.Regexp) (picked []T) {
	for _, c := range all {
		if selected.MatchString(scenario + "/lib=" + name(c)) {
			picked = append(picked, c)
		}
	}
	return picked
}
