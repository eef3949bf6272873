// Package printer shows runs on a console: what is called inside what, what
// failed and is tried again, how it ended, and what it took.
//
//	🤖 assistant [STARTED]
//	  🔧 fetch_data [STARTED]
//	  ✖ fetch_data [FAILED] (0.5s) - Connection timeout
//	    ↻ Retrying (attempt 2/3) in 2.0s...
//	  🔧 fetch_data [STARTED] (retry 2/3)
//	  ✔ fetch_data [COMPLETED after 2 attempts] (3.1s total)
//	    ↻ Recovered after 1 retry
//	✔ assistant [COMPLETED] (3.2s)
//
// A [Printer] is a publisher of a run by itself: its lines and what the
// program itself prints then come in the order in which they happened, and
// the run waits for the writer. As a subscriber of a bus (p.Publish is the
// function to subscribe) it never holds up the run.
//
// # Three forms
//
// Plain: each line is written as it happens, as above. It is for logs, and
// what a file, a pipe, a terminal that cannot move its cursor (TERM=dumb) and
// a CI system (CI is set) get. [WithPlain] is for everywhere else.
//
// Compact ([WithCompact]): a call is written when it is known how it ends.
// One that succeeds has its first and last lines, however often it was
// retried; any other one has all its attempts. What belongs to a call is
// written at once, so that lines of calls that run at the same time stay
// together. What happens inside a call is between its lines: before something
// inside it is written, the call's lines so far are. Log lines, values,
// questions and the lines of a run are written when they happen. A call of
// which nothing more will be heard, because it was left behind by an attempt
// that timed out or the run ended, is [UNFINISHED].
//
// Live: what a terminal gets. What is compact above stands below, while it
// goes on, as a tree that is redrawn ten times a second:
//
//	🤖 assistant ⠹ 2.1s
//	├─ 🔧 fetch_data ↻ Retrying (attempt 2/3) in 1.4s... - Connection timeout
//	└─ ▦ cities ████░░░░ 3 done, 1 failed, 2 running, 2 retrying
//	   ├─ 🔧 get_weather (cities/4) ⠹ 0.6s
//	   ├─ 🔧 get_weather (cities/5) ⠹ 0.6s
//	… and 2 more running, 2 retrying
//
// Live lines take two thirds of the window at most, and are cut to its width;
// what is written above them is not. Nothing is drawn while nothing goes on.
// The cursor is never hidden and stands below the last line, so that a process
// that is killed leaves a terminal in order. What the program prints while
// calls go on goes through [Printer.Write]. [Printer.Close] is for a program
// that may end while calls go on, and best deferred; where every call has
// ended there is nothing to close. A terminal has one printer with live lines.
//
// NO_COLOR turns colours off, [WithASCII] symbols.
//
// # Names
//
// The name in a line is the actor's. The second call of that name in its
// place has "#2" behind it; in parentheses follow the call's tag and the
// innermost branch of a group that it is in: "get_weather#2 (step, cities/3)".
//
// Text that comes from tools, models and users is shown on one line and cut;
// control characters, escape sequences and invisible formatting are shown as
// escapes such as \x1b, so that no text can spoil the terminal.
//
// # Groups
//
// Records tell of calls in the branches of a group and not of the group: how
// many branches have begun is known, and not how many there will be. A branch is
// done or failed by its last call. Without live lines a group has a line whenever
// another tenth of its branches so far has ended; with them it has a bar, with a
// cell for each branch that has begun, or a part of them where they are more than
// twenty; in both it has a line when it is over: when what is around it goes on or
// ends.
//
// # Questions
//
// A question is told once until its run pauses, with the command that answers
// it ([WithCommand]); the calls that wait for it name its ID. A run that goes
// on without the answer tells it again.
//
// # Bounds
//
// A printer follows 65,536 calls and groups at once; what comes on top is
// written as it happens. Of a call whose lines are kept it keeps the first and
// the latest 16 KB. What the summary remembers is at [Printer.Summary].
package printer
