package printer_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hinshun/vt10x"
	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

// An emulator is a terminal in memory. For a test that reads lines that have scrolled away, the
// emulator is larger than the size reported to the printer.
type emulator struct {
	vt10x.Terminal
	raw strings.Builder

	mu            sync.Mutex // guards the fields below
	columns, rows int        // reported to the printer
}

func newEmulator(t *testing.T, columns, rows int) *emulator {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	t.Setenv("TMUX", "")
	t.Setenv("XTERM_VERSION", "XTerm(390)") // lines do not reflow
	return &emulator{Terminal: vt10x.New(vt10x.WithSize(columns, 200)), columns: columns, rows: rows}
}

func (e *emulator) printer(options ...printer.Option) *printer.Printer {
	size := func() (int, int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.columns, e.rows
	}
	return printer.New(io.MultiWriter(e.Terminal, &e.raw), append([]printer.Option{printer.WithTerminal(size)}, options...)...)
}

// resize makes the terminal wider or narrower.
func (e *emulator) resize(columns int) {
	e.Resize(columns, 200)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.columns = columns
}

// shown returns the text on the screen, without trailing spaces and trailing empty lines.
func (e *emulator) shown() string {
	var lines []string
	for line := range strings.Lines(e.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// atRest checks that the terminal is in the state that a shell expects.
func (e *emulator) atRest(t *testing.T) {
	t.Helper()
	assert.True(t, e.CursorVisible(), "the cursor is visible")
	assert.NotZero(t, e.Mode()&vt10x.ModeWrap, "long lines wrap")
	assert.Zero(t, e.Cursor().X, "the cursor begins a line")
	assert.Equal(t, strings.Count(e.shown(), "\n")+1, e.Cursor().Y, "the cursor is below everything")
}

// now sets the times of the records to the current time, and returns them.
func now(records ...record.Record) []record.Record {
	for i := range records {
		records[i].Time = time.Now().UTC()
	}
	return records
}

func publish(p *printer.Printer, records ...record.Record) {
	for _, r := range records {
		p.Publish(r)
	}
}

// pass advances the clock of the synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // on the clock of a synctest bubble
	synctest.Wait()
}

func TestWaitCountsDownAndCollapsesIntoTheTextsOfTheSpecification(t *testing.T) {
	e := newEmulator(t, 100, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		publish(p, now(tool(t, record.StatusStarted, 0))...)
		assert.Empty(t, e.shown(), "a call that ends at once has no live line")
		pass(300 * time.Millisecond)
		assert.Equal(t, "🔧 fetch_data ⠹ 0.3s", strings.Replace(e.shown(), e.spinner(), "⠹", 1))
		pass(200 * time.Millisecond)
		publish(p, now(failing(t, 0, 2*sec)...)...)
		pass(600 * time.Millisecond)
		assert.Equal(t, "🔧 fetch_data ↻ Retrying (attempt 2/3) in 1.4s... - Connection timeout", e.shown())
		pass(sec)
		assert.Equal(t, "🔧 fetch_data ↻ Retrying (attempt 2/3) in 0.4s... - Connection timeout", e.shown())
		pass(sec)
		assert.Equal(t, "🔧 fetch_data ↻ Retrying (attempt 2/3) at once... - Connection timeout", e.shown(), "the retry is late")
		publish(p, now(tool(t, record.StatusStarted, 1))...)
		pass(200 * time.Millisecond)
		assert.Equal(t, "🔧 fetch_data (retry 2/3) ⠹ 3.3s", strings.Replace(e.shown(), e.spinner(), "⠹", 1))
		publish(p, now(completed(t, 1, 5200*time.Millisecond))...)
		want := "🔧 fetch_data [STARTED]\n✔ fetch_data [COMPLETED after 2 attempts] (5.2s total)\n  ↻ Recovered after 1 retry"
		assert.Equal(t, want, e.shown())
		pass(sec)
		assert.Equal(t, want, e.shown())
		e.atRest(t)
		require.NoError(t, p.Close())
		assert.Equal(t, want, e.shown())
	})
}

// spinner returns the spinner character that is shown, or empty.
func (e *emulator) spinner() string {
	for _, c := range "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" {
		if strings.ContainsRune(e.shown(), c) {
			return string(c)
		}
	}
	return ""
}

func TestTerminalShowsAllAttemptsOfAFailure(t *testing.T) {
	e := newEmulator(t, 100, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		for _, r := range exhausting(t) {
			publish(p, now(r)...)
			pass(sec)
		}
		assert.Equal(t, strings.TrimSuffix(printed(exhausting(t)), "\n"), e.shown())
		e.atRest(t)
	})
}

func TestCallsAreATreeOnATerminal(t *testing.T) {
	e := newEmulator(t, 100, 40)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer(printer.WithASCII())
		started := func(kind record.Kind, path, name string) record.Record {
			return call(t, kind, record.StatusStarted, path, name)
		}
		cities := started(record.KindGroup, "assistant/group:cities", "cities")
		cities.Detail = &record.Detail{Branches: 6}
		publish(p, now(
			started(record.KindAgent, "assistant", "assistant"),
			started(record.KindLLM, "assistant/model", "model"),
			started(record.KindAgent, "assistant/helper", "helper"),
			started(record.KindTool, "assistant/helper/search", "search"),
			cities,
			started(record.KindTool, "assistant/group:cities/1", "weather"),
			started(record.KindTool, "assistant/group:cities/2", "weather"),
			started(record.KindBranch, "assistant/group:cities/3", "cities 3"),
			started(record.KindTool, "assistant/group:cities/3/weather", "weather"),
			started(record.KindBranch, "assistant/group:cities/4", "cities 4"),
			started(record.KindTool, "other", "other"))...)
		pass(sec)
		assert.Equal(t, strings.TrimSpace(`
@ assistant / 1.0s
|- > model / 1.0s
|- @ helper / 1.0s
|  `+"`"+`- * search / 1.0s
`+"`"+`- % cities ...... 0 of 6 done, 4 running
   |- * weather (cities/1) / 1.0s
   |- * weather (cities/2) / 1.0s
   |- * weather (cities/3) / 1.0s
   `+"`"+`- - cities/4 / 1.0s
* other / 1.0s`), strings.NewReplacer("- 1.0s", "/ 1.0s", `\ 1.0s`, "/ 1.0s", "| 1.0s", "/ 1.0s").Replace(e.shown()))

		failure := call(t, record.KindTool, record.StatusFailed, "assistant/group:cities/2", "weather")
		failure.Err, failure.WillRetry, failure.Delay = errTimeout, true, 5*sec
		publish(p, now(
			call(t, record.KindTool, record.StatusCompleted, "assistant/group:cities/1", "weather"),
			failure, retrying(failure),
			failed(t, 0, record.ReasonPermanent, half))...)
		other := failed(t, 0, record.ReasonPermanent, half)
		other.Address, other.Name = address(t, "assistant/group:cities/3/weather"), "weather"
		publish(p, now(other)...)
		branch := call(t, record.KindBranch, record.StatusFailed, "assistant/group:cities/3", "cities 3")
		branch.Err, branch.Reason = fmt.Errorf("cities/3: %w", errTimeout), record.ReasonPermanent
		publish(p, now(branch, call(t, record.KindBranch, record.StatusCompleted, "assistant/group:cities/4", "cities 4"))...)
		pass(sec)
		shown := e.shown()
		assert.Contains(t, shown, "\n| | + weather (cities/1) [COMPLETED] (12ms)\n")
		assert.Contains(t, shown, "\n`- % cities ###... 2 of 6 done, 1 failed, 1 retrying\n   `- * weather (cities/2) ~ Retrying (attempt 2/3) in 4.0s... - Connection timeout\n")
		assert.True(t, strings.HasPrefix(shown, "@ assistant [STARTED]\n| % cities [STARTED] 6 branches\n| | * weather (cities/1) [STARTED]\n"), shown)

		again := call(t, record.KindTool, record.StatusStarted, "assistant/group:cities/2", "weather")
		again.Attempt = 1
		done := call(t, record.KindTool, record.StatusCompleted, "assistant/group:cities/2", "weather")
		done.Attempt = 1
		publish(p, now(again, done)...)
		pass(sec)
		assert.NotContains(t, e.shown(), "| % cities 3 of 6 done", "the group is still running")
		assert.NotContains(t, e.shown(), "x cities/3", "the line of its call shows the failure")
		assert.Contains(t, e.shown(), "- % cities ####.. 3 of 6 done, 1 failed\n")
		stopped := call(t, record.KindGroup, record.StatusFailed, "assistant/group:cities", "cities")
		stopped.Err, stopped.Reason = errTimeout, record.ReasonPermanent
		publish(p, now(stopped, started(record.KindLLM, "assistant/model#2", "model"))...)
		pass(sec)
		assert.Contains(t, e.shown(), "| % cities 3 of 6 done, 1 failed\n| x cities [FAILED: permanent] (12ms) - Connection timeout\n")
		require.NoError(t, p.Close())
		assert.True(t, strings.HasSuffix(e.shown(), strings.TrimSpace(`
| > model#2 [STARTED]
| = model#2 [UNFINISHED]
= assistant [UNFINISHED]
* other [STARTED]
= other [UNFINISHED]`)), e.shown())
		e.atRest(t)
	})
}

func TestLiveLinesLeaveRoomInTheWindow(t *testing.T) {
	for _, rows := range []int{1, 2, 3, 6, 12, 24, 0} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			e := newEmulator(t, 80, rows)
			synctest.Test(t, func(t *testing.T) {
				p := e.printer()
				for i := range 50 {
					r := tool(t, record.StatusStarted, 0)
					r.Address = address(t, fmt.Sprintf("fetch_data#%d", i+2))
					publish(p, now(r)...)
					if i%5 == 0 {
						f := failing(t, 0, 10*sec)
						f[0].Address, f[1].Address = r.Address, r.Address
						publish(p, now(f...)...)
					}
				}
				pass(sec)
				lines := strings.Count(e.shown(), "\n") + 1
				if e.shown() == "" {
					lines = 0
				}
				most := map[int]int{0: 16, 1: 0, 2: 1, 3: 2, 6: 4, 12: 8, 24: 16}[rows]
				assert.Equal(t, most, lines)
				if most > 1 {
					missing := map[int]string{2: "40 more running, 9 retrying", 4: "38 more running, 9 retrying", 8: "35 more running, 8 retrying", 16: "28 more running, 7 retrying"}[most]
					assert.True(t, strings.HasSuffix(e.shown(), "… and "+missing), e.shown())
				}
				require.NoError(t, p.Close())
			})
		})
	}
}

func TestLiveLinesFitIntoAnyWindow(t *testing.T) {
	long := strings.Repeat("日本🔧e\u0301👩‍💻", 40)
	for columns := 1; columns <= 130; columns++ {
		e := newEmulator(t, columns, 40)
		synctest.Test(t, func(t *testing.T) {
			p := e.printer()
			scope := ""
			for i := range 20 {
				r := tool(t, record.StatusStarted, 0)
				r.Address = address(t, scope+"fetch_data")
				r.Name = long[:i*20]
				publish(p, now(r)...)
				scope = r.Address.String() + "/"
				f := failing(t, 0, 10*sec)
				f[1].Address, f[1].Name = r.Address, r.Name
				if i%2 == 0 {
					publish(p, now(f[1])...)
				}
			}
			pass(sec)
			frames := strings.Split(e.raw.String(), "\x1b[?7l")
			last, _, _ := strings.Cut(frames[len(frames)-1], "\x1b[?7h")
			for line := range strings.Lines(last) {
				line = withoutSequences(strings.TrimRight(line, "\r\n"))
				assert.Less(t, (&runewidth.Condition{}).StringWidth(line), max(columns, 1), "%d columns: %q", columns, line)
			}
			assert.LessOrEqual(t, strings.Count(last, "\n"), 26)
			if columns == 40 {
				assert.Contains(t, last, "↻ 2/3 in 9.0s", "the wait is shown, and the name is truncated")
			}
			require.NoError(t, p.Close())
		})
	}
}

// withoutSequences removes the control sequences that the printer uses.
func withoutSequences(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "\x1b[") {
		if i > 0 {
			end := strings.IndexFunc(part, func(c rune) bool { return c >= 0x40 && c <= 0x7e })
			part = part[end+1:]
		}
		b.WriteString(part)
	}
	return b.String()
}

func TestResizeLeavesNoLiveLineBehind(t *testing.T) {
	e := newEmulator(t, 100, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		publish(p, now(tool(t, record.StatusStarted, 0))...)
		publish(p, now(failing(t, 0, 10*sec)...)...)
		pass(sec)
		e.resize(30)
		pass(sec)
		assert.Equal(t, "🔧 fetch_data ↻ 2/3 in 8.0s …", e.shown())
		e.resize(70)
		pass(sec)
		assert.Equal(t, "🔧 fetch_data ↻ Retrying (attempt 2/3) in 7.0s... - Connection timeo…", e.shown())
		publish(p, now(tool(t, record.StatusStarted, 1), completed(t, 1, 3*sec))...)
		assert.Equal(t, "🔧 fetch_data [STARTED]\n✔ fetch_data [COMPLETED after 2 attempts] (3.0s total)\n  ↻ Recovered after 1 retry", e.shown())
		e.atRest(t)
		pass(sec)
	})
}

func TestProgramWritesAboveLiveLines(t *testing.T) {
	e := newEmulator(t, 100, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer(printer.WithASCII())
		publish(p, now(tool(t, record.StatusStarted, 0))...)
		publish(p, now(failing(t, 0, 10*sec)...)...)
		pass(sec)
		fmt.Fprint(p, "one\ntwo ")
		assert.Equal(t, "one\n* fetch_data ~ Retrying (attempt 2/3) in 9.0s... - Connection timeout", e.shown())
		log := record.Record{RunID: "r1", Kind: record.KindLog, Detail: &record.Detail{Message: "hello"}}
		publish(p, log)
		fmt.Fprint(p, "words\n")
		pass(sec)
		assert.Equal(t, "one\n- INFO hello\ntwo words\n* fetch_data ~ Retrying (attempt 2/3) in 8.0s... - Connection timeout", e.shown())
		fmt.Fprint(p, "not ended")
		require.NoError(t, p.Close())
		require.NoError(t, p.Close(), "closing twice is fine")
		assert.Equal(t, strings.TrimSpace(`
one
- INFO hello
two words
* fetch_data [STARTED]
x fetch_data [FAILED] (0.5s) - Connection timeout
  ~ Retrying (attempt 2/3) in 10.0s...
= fetch_data [UNFINISHED]
not ended`), e.shown())
		e.atRest(t)
		publish(p, now(tool(t, record.StatusStarted, 1))...)
		fmt.Fprint(p, "after")
		assert.True(t, strings.HasSuffix(e.shown(), "\n* fetch_data [STARTED] (retry 2/3)\nafter"), "after Close, lines are written as they happen")
	})
}

func TestNothingIsDrawnWhileNoCallRuns(t *testing.T) {
	e := newEmulator(t, 100, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		publish(p, now(tool(t, record.StatusStarted, 0), completed(t, 0, half))...)
		before := e.raw.Len()
		pass(time.Hour)
		assert.Equal(t, before, e.raw.Len())
		fmt.Fprintln(e.Terminal, "the program prints by itself")
		publish(p, now(tool(t, record.StatusStarted, 0))...)
		pass(sec)
		assert.Contains(t, e.shown(), "the program prints by itself\n🔧 fetch_data")
		publish(p, now(completed(t, 0, half))...)
		pass(sec)
		// The bubble ends only when every goroutine has ended, even without a Close.
	})
	assert.NotContains(t, e.raw.String(), "\x1b[?25", "the cursor is never hidden")
}

// frames records the data of each call of Write.
type frames struct {
	mu  sync.Mutex
	all []string
}

func (f *frames) Write(data []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, string(data))
	return len(data), nil
}

func TestEachFrameIsOneWriteOfBoundedLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out frames
		p := printer.New(&out, printer.WithTerminal(func() (int, int) { return 80, 24 }))
		for i := range 1000 {
			r := tool(t, record.StatusStarted, 0)
			r.Address = address(t, fmt.Sprintf("fetch_data#%d", i+2))
			publish(p, now(r)...)
		}
		pass(10 * sec)
		require.NoError(t, p.Close())
		require.Len(t, out.all, 101, "ten frames a second, and a last one")
		for _, frame := range out.all[:100] {
			assert.True(t, strings.HasPrefix(frame, "\x1b[?2026h") && strings.HasSuffix(frame, "\x1b[?7h\x1b[?2026l"), "%q", frame)
			assert.Less(t, len(frame), 80*24*2)
		}
	})
}

// broken is a terminal that panics.
type broken struct{}

func (broken) Write([]byte) (int, error) { panic("in Write") }

func TestWriterThatPanicsWhileDrawingIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := printer.New(broken{}, printer.WithTerminal(func() (int, int) { return 80, 24 }))
		publish(p, now(tool(t, record.StatusStarted, 0))...)
		pass(sec)
		require.ErrorContains(t, p.Err(), "in Write")
	})
}

func TestLiveLinesDistinguishRuns(t *testing.T) {
	e := newEmulator(t, 100, 24)
	synctest.Test(t, func(t *testing.T) {
		p := e.printer(printer.WithASCII())
		for _, run := range []string{"a", "b\x1b[2J"} {
			r := tool(t, record.StatusStarted, 0)
			r.RunID = run
			publish(p, now(r)...)
		}
		pass(sec)
		assert.Regexp(t, "^# run a\n`- \\* fetch_data . 1.0s\n# run b\\\\x1b\\[2J\n`- \\* fetch_data . 1.0s$", e.shown())
		publish(p, record.Record{RunID: "a", Kind: record.KindRun, Status: record.StatusCompleted})
		pass(sec)
		assert.Regexp(t, "^\\* fetch_data \\[STARTED\\]\n= fetch_data \\[UNFINISHED\\]\n\\+ run a \\[COMPLETED\\]\n\\* fetch_data . 2.0s$", e.shown())
		require.NoError(t, p.Close())
	})
}

func TestColorsAreFewAndCanBeTurnedOff(t *testing.T) {
	e := newEmulator(t, 100, 24)
	publish(e.printer(printer.WithPlain()), exhausting(t)...)
	assert.Contains(t, e.raw.String(), "\x1b[31m✖\x1b[0m fetch_data \x1b[31m[FAILED]\x1b[0m (0.5s) - Connection timeout\n  \x1b[33m↻\x1b[0m Retrying")
	assert.Equal(t, printed(exhausting(t)), withoutSequences(e.raw.String()))

	e = newEmulator(t, 100, 24)
	t.Setenv("NO_COLOR", "1")
	publish(e.printer(printer.WithPlain()), exhausting(t)...)
	assert.Equal(t, printed(exhausting(t)), e.raw.String())

	synctest.Test(t, func(t *testing.T) {
		p := e.printer()
		publish(p, tool(t, record.StatusStarted, 0))
		pass(sec)
		require.NoError(t, p.Close())
	})
	assert.NotRegexp(t, `\x1b\[[0-9;]*m`, e.raw.String(), "live lines have no colors either")

	e = newEmulator(t, 100, 24)
	publish(e.printer(printer.WithTerminal(nil)), exhausting(t)...)
	assert.Equal(t, printed(exhausting(t)), e.raw.String(), "other writers get plain lines")
}
