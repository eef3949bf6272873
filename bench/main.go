// Command bench measures Reprise beside its peers: failsafe-go, cenkalti/backoff,
// avast/retry-go, sethvargo/go-retry and loops written by hand; what it stores
// beside SQLite, bbolt and a file; its records beside msgpack and JSON; and how
// it streams them beside r3labs/sse and tmaxmax/go-sse.
//
//	go run .                          the tables, in four or five minutes
//	go run . -only 'Success|Sleepers'
//	go test -bench . -count 10        the same contestants for benchstat
//
// # What is compared
//
// Every contestant of a scenario makes the same call: the same handler, the
// same cancellable context, at most three attempts, the same delays. Encode,
// Decode, Print, Durable, Replay and Record are about records and what is
// stored, see below.
//
//   - Success: the handler succeeds at once.
//   - Timeout: the same with a limit of a second on each attempt. The handler
//     uses its context: it looks at Done, and does not wait for it.
//   - TwoFailures: the handler fails twice and then succeeds. No delays.
//   - TwoFailuresListeners: the same, with everything that the library reports to
//     listeners being counted by one. go-retry has none.
//   - Sleepers: many calls that have failed once and wait for an hour, each
//     on a goroutine, in a process of their own.
//
// The contestants:
//
//   - reprise: a call outside a run. Nothing is recorded.
//   - reprise-run: a call in a run without a store. Each call leaves 2 records
//     in the history (8 with two failures), which keeps all of them. A run has
//     10,000 calls; then the next one begins.
//   - reprise-run-listener: the same, and each record is given to a publisher
//     that the run calls itself, on the caller's goroutine. This is what the
//     listeners of the peers are.
//   - reprise-run-subscriber: the same, and each record goes through a bus to
//     a subscriber on its own goroutine, which counts. It is never allowed to
//     miss a record: where it is behind, the run waits.
//   - failsafe: its retry policy (and, in Timeout, its timeout policy).
//   - failsafe-listeners: the same with every listener set that there is.
//   - cenkalti, avast, sethvargo: each as its documentation has it.
//   - sethvargo-unlimited: go-retry counts attempts in a value that has to be
//     made for each call. This is what it costs without that, which a program
//     can have that never gives up.
//   - loop: what one writes without a library.
//   - loop-abandon: that loop with each attempt on a goroutine of its own.
//
// Whatever a library lets a program build once is built once, which flatters
// the peers: their functions take no input, so that a real program makes a
// closure for each call, and some of them have their context built in. Errors
// are made beforehand.
//
// # What is stored
//
//   - Encode and Decode: the record of a failed attempt, the fourth, by
//     snapshot.AppendRecord into a buffer that is used again and by
//     snapshot.DecodeRecord. reprise-live has an error as handlers return it,
//     and not one that was recorded; reprise-new-address decodes the records of
//     2,000 calls in turn, so that no address is remembered. msgpack and json
//     marshal a plain struct with the same fields, with its names in the bytes.
//   - Print: a record is printed to a file, by printer.New(file).Publish. Of
//     eight records of a call, seven have lines: two failures, each with its
//     wait, and a success. fprintln writes the same lines, ready-made.
//   - Durable: calls in a run that state.Open has in a filestore.Store, with
//     SyncOutcomes: two appends and an fsync each. In the same number of bytes,
//     bare has an append and an fsync, sqlite a row and bbolt a key, each in a
//     transaction. What ends in -16 has 16 callers. SQLite has one writer: its
//     callers wait for the connection. bbolt-batch-16 lets those who come
//     together share a transaction, which is what Reprise does.
//   - SQLite has a log (WAL) with synchronous=FULL. It is as long as it gets
//     before it is written over, so that commits do not make a file grow, as
//     the appends of bare and reprise do. bbolt has its file beforehand, too.
//   - Replay1000 and Replay10000: an agent makes so many calls in a loop and
//     all of them are recalled. It was stopped after the last one: an agent
//     that has ended would be recalled itself. reprise is state.Open on a
//     fresh copy of the run, with what it syncs, until the agent has returned;
//     reprise-replay is state.Replay, which writes nothing. Closing is not
//     included. sqlite opens a database and has a query by primary key for each
//     call, sqlite-scan one for all of them in order. Both decode the outputs
//     as Reprise does, and do nothing else.
//   - Record: what a record takes, half a call that succeeds at once, at
//     lengths of 100, 10,000 and 100,000; in a run without a store (memory) and
//     in a filestore.Store without syncing (file). 256 records are measured at a time,
//     each time after a garbage collection and 64 records that are not, and 16
//     times in a round, in one run as long as it grows by less than a tenth.
//
// # What a service runs
//
//   - Runs: 2,000 runs of one call that returns its input are started by 64
//     goroutines and run in 64 slots, until the last one has ended. All is synced:
//     what was started, that it was begun, and what it returned. reprise is a
//     runner on a directory; reprise-step runs an agent that calls a tool, whose
//     outcome is synced, too. river is a client of River that inserts jobs and
//     works on them, with the intervals of its own benchmark. dbos runs workflows
//     of one step; each starter waits for the end of its workflow. reprise-postgres
//     is a runner on a postgres.Store with its queue, in the same server.
//   - Workers: the same with 1,000 runs and as many workers as the name ends with, or
//     one; they share the 64 slots, and the first starts the runs. Workers are
//     runners with a store each, or clients of River, in one process.
//     reprise-jetstream is on a jetstream.Store, with a NATS server in a process of
//     its own, whose default is to sync every two minutes; always syncs each
//     message before it is acknowledged.
//   - In Durable, reprise-postgres makes the same calls in a run of a
//     postgres.Store, and pgx inserts a row of as many bytes for each call, in a
//     transaction of its own.
//   - All of these, and the dbos of Durable, whose workflow makes one step after the
//     other, use a PostgreSQL server that is started for them beside the other
//     files, with its defaults: fsync and synchronous_commit are on. It is a
//     process of its own: its allocations are not counted. A result of River is
//     kept by River Pro only, and so are workflows of several steps.
//
// # What is made in parallel
//
//   - Group: 10,000 calls of a tool that succeeds at once, 50 at a time, in a run
//     without a store, which is made for them and closed. reprise is actors.Map,
//     reprise-yield the same with YieldWaits. errgroup is an errgroup.Group with a
//     limit of 50, and a function for each call; its calls have their addresses in
//     the order in which they happen to begin, so that such a run could not be
//     resumed. errgroup-prepared claims them in order, as a group does. loop has no
//     goroutines.
//
// # What language models are asked
//
// A server on loopback, in the same process, answers at once. Its allocations
// are included, and the same for everybody.
//
//   - LLM: one call. reprise is openai.New outside a run, reprise-run in a run
//     without a store; go-openai is its CreateChatCompletion.
//   - LLMStream: an answer in 500 chunks, in one write. reprise-watch has a
//     function of live.Watch count them, reprise-iterator ranges over
//     actors.Stream, which joins those that come faster than the loop takes
//     them; go-openai has its Recv in a loop that keeps the text.
//   - LLMAgent: ten turns, of which nine call a tool. reprise is an agent in a
//     run without a store, go-openai the loop that one writes by hand, which
//     checks nothing, records nothing and retries nothing. eino is the ReAct
//     agent of cloudwego/eino with its own model for OpenAI. adk is an agent of
//     google/adk-go with a runner and a function tool; each question has its own
//     session in memory, which is deleted afterwards. ADK has models for Gemini
//     and for OpenAI's Responses, not for chat completions, so its model here is
//     an adapter of a hundred lines around go-openai, which encodes the tool's
//     schema once. ADK adds the agent's name to the instructions.
//
// # What is streamed
//
// FanOut1, FanOut100 and FanOut1000 have so many clients, that all get the
// same records of a run as server-sent events: about 300 bytes of JSON, with
// the status as the event's name. A server and its clients are two processes
// on this machine, and others for each contestant and pass.
//
//   - reprise is a streamer.Handler, which keeps 16,384 events. r3labs is its
//     Server as its documentation has it, which keeps all, go-sse its Server
//     with Joe, which here keeps none. What publishes to them encodes a record
//     once, as reprise does.
//   - The clients are the same for everybody: sockets that are read to count
//     events. Each checks that it gets every record once and in its turn. Whose
//     records do not all arrive has lost, whatever its figures are.
//   - First a flood, after a quarter of one to warm up. Its events are published
//     as fast as the contestant takes them, and measured is the time until the
//     last client has the last one: deliveries/s are events by clients by
//     second. Then events are paced: so many a second.
//   - CPU is that of the server's process by deliveries, with what the system
//     does for it. Latencies are those of 100 clients at most, from when an
//     event was due to be published; where a server cannot keep the pace, they
//     are the length of its queue.
//   - clients % is the part of the flood in which the clients' process was at
//     work; well below 100, it did not hold anybody up.
//
// # What the numbers mean
//
// Contestants of a scenario take turns, in many short rounds, each time from a
// fresh start and after a garbage collection. A round is long enough for the
// collections that a contestant's own garbage causes.
//
//   - ns/op, ms/op, ops/s, allocs/op, B/op: medians over the rounds. Whatever the process
//     does meanwhile is included: the subscriber's goroutine, the growth of
//     the history, the handler, and about 2 ns of measuring.
//   - ratio: the median over the rounds of this contestant's time by that of
//     the peer that the heading names, in the same round. 25–75 % is where
//     the middle half of the rounds was.
//   - bytes: of a record; in Durable, what a call appends to the journal.
//   - bytes each: HeapAlloc and StackInuse after two collections, less what
//     they were before, by the number of calls or of idle clients. The
//     goroutines are included, and the connections' buffers.
//   - release: from the interrupt (reprise-run) or from cancel (all others)
//     until every call has returned.
//
// Times are worth what the machine is worth; ratios and allocations travel.
// The targets are those of the project. They are judged by what was measured
// in this very run, and a missed one does not make the program fail. An
// allocation that is shared by five calls or more, such as a new piece of
// history, does not miss a target of allocations. What is to be the same may
// differ by a tenth.
//
// # What is not comparable
//
//   - Reprise in a run numbers, keeps and publishes what happens. No peer
//     keeps anything. Their listeners are called on the caller's goroutine.
//   - Only reprise and loop-abandon return when a handler does not listen to
//     its context: they run it on a goroutine that can be left behind. loop
//     and failsafe run it on the caller's, and wait for it however long it
//     takes. The target beside loop is one for that handicap, too.
//   - Reprise makes a panic of the handler an error. The peers and the loops
//     let it pass, and in loop-abandon it would end the process.
//   - Reprise and go-retry try again only what is marked as retryable or, for
//     Reprise, classified so. The others try everything again.
//   - r3labs and go-sse flush each event to each client by itself. reprise
//     gathers what comes within 5 ms, with 1,000 clients within 50, so that its
//     latency is never near zero, as theirs may be.
//   - A publisher of r3labs and go-sse waits for the slowest client. One of
//     reprise does not: a client that is slower than what is kept is cut off,
//     and resumes. A flood is no longer than what is kept.
//   - SQLite's memory is not that of Go: it is not in allocs/op and B/op.
//   - Without a delay Reprise and the loops go on at once. The four peers set
//     a timer of nothing and wait for it.
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
	profiles = flag.String("profiles", "", "write profiles of the servers of FanOut to this `directory`")
	natsDir  = flag.String("nats-server", "", "run as the NATS server of Workers in the `directory`; the program starts itself in this way")
	natsSync = flag.Bool("nats-sync", false, "this server syncs each message")
	fanLib   = flag.String("fanout-server", "", "run as the server of the `lib` of FanOut and print JSON; the program starts itself in this way")
	fanURL   = flag.String("fanout-clients", "", "run as the clients that read from the `URL`; the program starts itself in this way")
	fanSize  = flag.String("fanout", "", "the workload of these two, as `JSON`")
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

// runChild does what another process of this program has started this process for.
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
	if chosen := pick(recordName, recordings, recording.String, selected); len(chosen) > 0 {
		r, err := measureRecordings(chosen, *rounds)
		if err != nil {
			return err
		}
		results[recordName] = r
		printRecordings(chosen, r)
	}
	for _, f := range fanOuts {
		chosen := pick(f.name(), broadcasters, broadcasting.String, selected)
		if len(chosen) == 0 {
			continue
		}
		if err := enoughFiles(f.Clients + spareFiles); err != nil {
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
	chosen := pick(sleepersName, sleepingContestants, sleeping.String, selected)
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

// pick returns the contestants selected by "scenario/lib=name".
func pick[T any](scenario string, all []T, name func(T) string, selected *regexp.Regexp) (picked []T) {
	for _, c := range all {
		if selected.MatchString(scenario + "/lib=" + name(c)) {
			picked = append(picked, c)
		}
	}
	return picked
}
