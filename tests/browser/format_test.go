package browser

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/streamer"
)

func TestLengthsOfTimeHaveUnits(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := open(t, s.url())
	got := eval[map[string]string](p, `(async () => {
		const { age, duration } = await import(new URL("format.js", document.baseURI));
		const times = [59_600, 60_000, 567_000, 3_599_900, 17_100_000];
		return Object.fromEntries(times.map((ms) => [ms, duration(ms) + ", " + age(ms) + " ago"]));
	})()`)
	assert.Equal(t, map[string]string{
		"59600": "59 s, 59 s ago", "60000": "1 m 00 s, 1 m 00 s ago", "567000": "9 m 27 s, 9 m 27 s ago",
		"3599900": "59 m 59 s, 59 m 59 s ago", "17100000": "4 h 45 m, 4 h 45 m ago",
	}, got)
}

// TestTheTimeLineLeavesOutWhenARunWasClosed checks that the time line ends with the records that a
// fork keeps, and that cancelling a closed run does not make it longer.
func TestTheTimeLineLeavesOutWhenARunWasClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := open(t, s.url())
	assert.Equal(t, 2000, eval[int](p, `(async () => {
		const { CallTree } = await import(new URL("calls.js", document.baseURI));
		const tree = new CallTree();
		const call = { event_type: "tool_call", address: "pay", retry_attempt: 0 };
		tree.take({ ...call, time: "2026-01-01T00:00:00Z", execution_status: "started" });
		tree.take({ ...call, time: "2026-01-01T00:00:02Z", execution_status: "completed" });
		tree.take({ time: "2026-02-01T00:00:00Z", event_type: "run", execution_status: "interrupted", reason: "fork" });
		tree.take({ time: "2026-03-01T00:00:00Z", event_type: "run", execution_status: "cancelled", reason: "cancel" });
		const [{ start, end }] = tree.openings;
		return end - start;
	})()`))
}
