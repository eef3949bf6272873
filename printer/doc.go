// Package printer writes a run to a console: a line for each record, indented
// by depth.
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
// The name in a line is the actor's. The second call of that name in its
// place has "#2" behind it; in parentheses follow the call's tag and the
// innermost branch of a group that it is in: "get_weather#2 (step, cities/3)".
//
// Text that comes from tools, models and users is shown on one line and cut;
// control characters, escape sequences and invisible formatting are shown as
// escapes such as \x1b, so that no text can spoil the terminal.
package printer
