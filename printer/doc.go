// Package printer shows runs on a console: how calls are nested, how they fail and are retried, how
// they end, and how long they take.
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
// A [Printer] can be the publisher of a run. Its lines and the program's own output then appear in
// the order of the events, and the run waits for the writer. If p.Publish is subscribed to a bus
// instead, the printer never delays the run.
//
// # Three forms
//
// Plain: each line is written as soon as its event happens, as above. This form is suitable for
// logs. It is the default for files, pipes, terminals that cannot move their cursor (TERM=dumb) and
// CI systems (CI is set). [WithPlain] selects it everywhere.
//
// Compact ([WithCompact]): the lines of a call are written when the call ends. If the call
// succeeds, these are its first and last lines, no matter how often it was retried; otherwise, they
// include all attempts. The lines of a call are written together, so the lines of concurrent calls
// do not mix. The lines of a nested call appear between those of the outer call, because the
// buffered lines of the outer call are written before anything inside that call. Log lines, values,
// questions and the lines of a run are written immediately. If a call ends without a record,
// because the attempt around it timed out or its run ended, it is shown as [UNFINISHED].
//
// Live: the default for a terminal. It writes the compact form. Below it, the running calls are
// shown as a tree that is redrawn ten times a second:
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
// [Printer.PublishDelta] shows the output of a running call, such as a model's answer. If there is
// room, the last three lines of the output are shown.
//
// Live lines take up at most two thirds of the window's height and are truncated to its width; the
// lines above them are not truncated. Nothing is drawn while no call is running. The cursor is
// never hidden and always stays below the last line, so a process that is killed leaves the
// terminal usable. A program that prints while calls are running must use [Printer.Write]. A
// program that may end while calls are running should defer [Printer.Close]; Close is not needed
// once every call has ended. Only one printer with live lines may use a terminal.
//
// The environment variable NO_COLOR turns colors off. [WithASCII] replaces emoji with ASCII
// symbols.
//
// # Names
//
// A line begins with the name of the actor. If a scope calls the same actor more than once, the
// name is followed by "#2" for the second call. The tag of the call, and the innermost branch of a
// group that contains the call, follow in parentheses: "get_weather#2 (step, cities/3)".
//
// The line that shows how an attempt ended also shows the attributes of the attempt
// (core.Annotate). For a model, the attributes provider, server_address, server_port and
// response_id are left out, and so is model if it equals the actor's name. A [Log] writes all
// attributes.
//
// Text from tools, models and users is truncated and shown on one line. Control characters, escape
// sequences and invisible formatting are shown as escapes such as \x1b, so they cannot corrupt the
// terminal.
//
// # Groups
//
// A group is shown like a call, with the number of its branches. In plain form, a progress line is
// written each time another tenth of the branches has ended. A terminal shows a progress bar
// instead, with one cell for each branch or, if there are more than twenty branches, one cell for
// several. If the group does not succeed, a line shows how its branches ended.
//
// If the branches are calls of a single actor (actors.Map), they have the same lines as other
// calls. If they are functions (actors.Parallel), a branch has a line of its own only if it fails,
// is interrupted, or is recalled as failed, and if no call inside it has a line that shows this.
//
// # Questions
//
// A question is written together with the command that answers it ([WithCommand]), and only once
// until its run pauses. The calls that wait for the question show its ID. If the run is resumed
// without an answer, the question is written again, with the command that lists the run's
// questions. If a question is asked again, it shows why the previous answer was rejected. If a
// question is answered before a call around it is suspended, the line of that call shows that the
// question was answered, and that the call continues when the run is opened again.
//
// # Logs
//
// A [Log] is a publisher that writes records to a [log/slog.Logger] instead.
//
// # Bounds
//
// A printer tracks 65,536 calls at once. The lines of any further calls are written immediately.
// For each call, the printer buffers the first line and the latest 16 KB of other lines.
// [Printer.Summary] documents the limits of the summary.
package printer
