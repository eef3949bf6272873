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
// Plain: each line is written as it happens, as above. It is the form for
// logs: files, pipes, terminals that cannot move their cursor (TERM=dumb) and
// CI systems (CI is set) get it. [WithPlain] sets it everywhere.
//
// Compact ([WithCompact]): a call is written when it is known how it ends. A
// call that succeeds has its first and last lines, however often it was
// retried; any other has all its attempts. The lines of a call are written
// together, so that those of calls that run at the same time do not mix. Lines
// inside a call stand between its own: before something inside it is written,
// the call's lines so far are. Log lines, values, questions and the lines of a
// run are written when they happen. A call that ends without a record, because
// an attempt that timed out left it behind or the run ended, is [UNFINISHED].
//
// Live: what a terminal gets. What is compact above stands below, while it
// goes on, as a tree that is redrawn ten times a second:
//
//	🤖 assistant ⠹ 2.1s
//	├─ 🔧 fetch_data ↻ Retrying (attempt 2/3) in 1.4s... - Connection timeout
//	├─ 💬 model ⠹ 1.2s
//	│    It is 4 °C in Oslo, with
//	└─ ▦ cities ████░░░░ 3 of 8 done, 1 failed, 2 running, 2 retrying
//	   ├─ 🔧 get_weather (cities/4) ⠹ 0.6s
//	   ├─ 🔧 get_weather (cities/5) ⠹ 0.6s
//	… and 2 more running, 2 retrying
//
// [Printer.Delta] shows what a call is producing, such as the words of a model's
// answer: the last three lines of it, where the lines of calls leave room.
//
// Live lines take two thirds of the window at most, and are cut to its width;
// the lines above them are not. Nothing is drawn while no call goes on. The
// cursor is never hidden and stands below the last line, so that a process
// that is killed leaves the terminal usable. A program that prints while calls
// go on does so with [Printer.Write]. A program that may end while calls go on
// defers [Printer.Close]; once every call has ended there is nothing to close.
// A terminal has one printer with live lines.
//
// NO_COLOR turns colours off, [WithASCII] symbols.
//
// # Names
//
// The name in a line is the actor's. The second call of that name in its scope
// has "#2" after it; the call's tag and the innermost branch of a group around
// it follow in parentheses: "get_weather#2 (step, cities/3)".
//
// Text that comes from tools, models and users is shown on one line and cut;
// control characters, escape sequences and invisible formatting are shown as
// escapes such as \x1b, so that no text can spoil the terminal.
//
// # Groups
//
// A group is shown like a call, with the number of its branches. While it goes
// on it has a line whenever another tenth of them has ended; on a terminal it
// has a bar instead, with a cell for each branch or, above twenty, for several.
// If it does not succeed, a line says what became of its branches.
//
// Where the branches are calls of one actor (actors.Map), they have the lines
// of every call. Where they are functions (actors.Parallel), a branch has a
// line only if it fails, is interrupted, or is recalled as failed, and the
// calls in it do not say so.
//
// # Questions
//
// A question is written once until its run pauses, with the command that answers it
// ([WithCommand]); the calls that wait for it have its ID. A run that is resumed
// without the answer writes it again, with the command that lists how to answer. A
// question that is asked again has the reason: why the answer did not fit.
//
// # Logs
//
// [NewLog] is a publisher that writes records to a [log/slog.Logger] instead.
//
// # Bounds
//
// A printer follows 65,536 calls at once; the lines of further ones are
// written as they happen. Of a call whose lines are buffered it keeps the first
// and the latest 16 KB. What the summary remembers is at [Printer.Summary].
package printer
