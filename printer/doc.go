// Package printer shows runs on a console: which calls are made inside which, what
// failed and is tried again, how the calls ended, and how long they took.
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
// A [Printer] can be a publisher of a run: its lines and the output of the program are
// then in the order in which they happened, and the run waits for the writer. As a
// subscriber of a bus (subscribe p.Publish) it never delays the run.
//
// # Three forms
//
// Plain: each line is written when it happens, as above. This is the form for logs. It is
// the default for files, pipes, terminals that cannot move their cursor (TERM=dumb) and
// CI systems (CI is set). [WithPlain] sets it everywhere.
//
// Compact ([WithCompact]): a call is written when its end is known. A call that succeeds
// has its first and last lines, however often it was retried; any other call has all its
// attempts. The lines of a call are written together, so that the lines of concurrent
// calls do not mix. The lines of a nested call are between those of the outer call: before
// anything inside a call is written, the buffered lines of the call are. Log lines,
// values, questions and the lines of a run are written when they happen. A call that ends
// without a record, because an attempt that timed out abandoned it or the run ended, is
// [UNFINISHED].
//
// Live: the default for a terminal. It writes the compact form, and below it shows the
// calls that run, as a tree that is redrawn ten times a second:
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
// [Printer.Delta] shows what a call produces, such as the words of a model's answer: its
// last three lines, if the lines of calls leave room.
//
// Live lines take at most two thirds of the window and are cut to its width; the lines
// above them are not cut. Nothing is drawn while no call runs. The cursor is never hidden
// and is below the last line, so that a process that is killed leaves the terminal
// usable. A program that prints while calls run must use [Printer.Write]. A program that
// may end while calls run should defer [Printer.Close]; once every call has ended there is
// nothing to close. A terminal can have only one printer with live lines.
//
// NO_COLOR turns colours off, [WithASCII] symbols.
//
// # Names
//
// A line has the name of the actor. The second call of a name in its scope has "#2" after
// the name; the tag of the call and the innermost branch of a group around it follow in
// parentheses: "get_weather#2 (step, cities/3)".
//
// Text from tools, models and users is shown on one line and truncated; control
// characters, escape sequences and invisible formatting are shown as escapes such as
// \x1b, so that no text can corrupt the terminal.
//
// # Groups
//
// A group is shown like a call, with the number of its branches. While it runs, it writes
// a line whenever another tenth of them has ended; on a terminal it has a bar instead,
// with a cell for each branch or, for more than twenty, for several. If it does not
// succeed, a line shows how its branches ended.
//
// If the branches are calls of one actor (actors.Map), they have the same lines as other
// calls. If they are functions (actors.Parallel), a branch has a line only if it fails, is
// interrupted, or is recalled as failed, and the calls in it do not show that.
//
// # Questions
//
// A question is written once until its run pauses, with the command that answers it
// ([WithCommand]); the calls that wait for it show its ID. If the run is resumed without
// the answer, the question is written again, with the command that lists how to answer. A
// question that is asked again shows why the answer did not fit.
//
// # Logs
//
// [NewLog] is a publisher that writes records to a [log/slog.Logger] instead.
//
// # Bounds
//
// A printer follows 65,536 calls at once; the lines of further calls are written when they
// happen. Of the buffered lines of a call it keeps the first and the latest 16 KB. The
// bounds of the summary are at [Printer.Summary].
package printer
