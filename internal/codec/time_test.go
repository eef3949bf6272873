package codec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

// zonedTimes returns times in many time zones: with odd offsets, with and without daylight saving
// time, and in distant years.
func zonedTimes(t testing.TB) []time.Time {
	t.Helper()
	var times []time.Time
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Europe/London"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		times = append(times,
			time.Date(2026, 1, 15, 8, 30, 0, 123456789, zone), time.Date(2026, 7, 15, 8, 30, 0, 0, zone), time.Date(1850, 1, 1, 0, 0, 0, 1, zone),
			time.Date(-5, 1, 1, 0, 0, 0, 0, zone), time.Date(12345, 12, 31, 23, 59, 59, 999999999, zone), time.Unix(1<<35, 0).In(zone))
	}
	return append(times, time.Time{}, time.Time{}.Local(), time.Now(), time.Unix(0, 0), time.Unix(1<<34, 0),
		time.Now().In(time.FixedZone("odd", 3661)), time.Now().In(time.FixedZone("far", -50*60*60)), time.Now().In(time.FixedZone("GMT", 0)))
}

func TestTimeKeepsItsOffset(t *testing.T) {
	for _, at := range zonedTimes(t) {
		got := again(t, struct {
			At    time.Time
			Any   any
			Maybe *time.Time
		}{at, at, &at})
		for _, same := range []time.Time{got.At, got.Any.(time.Time), *got.Maybe, again(t, at), again(t, []time.Time{at})[0]} {
			assert.True(t, at.Equal(same), "%v and %v", at, same)
			_, want := at.Zone()
			_, offset := same.Zone()
			assert.Equal(t, want, offset, "%v", at)
			if want == 0 {
				assert.Equal(t, time.UTC, same.Location())
			}
			assert.Equal(t, same, again(t, same), "the decoded time is stable")
		}
	}
}

func TestEqualInstantsAreTheSameInput(t *testing.T) {
	for _, at := range zonedTimes(t) {
		before, err := codec.EncodeBefore(struct{ At time.Time }{at})
		require.NoError(t, err)
		for _, same := range []time.Time{at, at.UTC(), at.Local(), at.In(time.FixedZone("", 5*60*60))} {
			data, err := codec.Encode(struct{ At time.Time }{same})
			require.NoError(t, err)
			data, err = codec.Canonical(data)
			require.NoError(t, err)
			assert.Equal(t, before, data, "%v: the old form has not changed", same)
			assert.Equal(t, identity(t, anything{Value: at}), identity(t, anything{Value: same}))
		}
		assert.NotEqual(t, identity(t, at), identity(t, at.Add(1)))
	}
}

func TestTimestampWrittenBeforeIsInUTC(t *testing.T) {
	zone := time.FixedZone("", 7200)
	data, err := codec.EncodeBefore(time.Date(2026, 1, 2, 3, 4, 5, 0, zone))
	require.NoError(t, err)
	var at time.Time
	require.NoError(t, codec.Decode(data, &at))
	assert.Equal(t, time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC), at)
}

func TestTimeIsReadFromText(t *testing.T) {
	data, err := codec.Encode(map[string]string{"At": "2026-01-02T03:04:05+02:00"})
	require.NoError(t, err)
	var v struct{ At time.Time }
	require.NoError(t, codec.Decode(data, &v))
	assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 7200)), v.At)
	data, err = codec.Encode(map[string]string{"At": "tomorrow"})
	require.NoError(t, err)
	require.ErrorContains(t, codec.Decode(data, &v), "At: ")
}

func TestTimeIsShownWithItsOffset(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for offset, want := range map[int]string{
		0: "2026-01-02T03:04:05.000000006Z", 7200: "2026-01-02T05:04:05.000000006+02:00", -5400: "2026-01-02T01:34:05.000000006-01:30",
		61: "2026-01-02T03:04:05.000000006Z", 25 * 3600: "2026-01-02T03:04:05.000000006Z", // RFC 3339 cannot express these offsets
	} {
		data, err := codec.Encode(at.In(time.FixedZone("", offset)))
		require.NoError(t, err)
		text, err := codec.AppendJSON(nil, data, 0)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%q", want), string(text))
		assert.Equal(t, "a time", codec.Describe(data))
		in := codec.NewReader(data)
		assert.Equal(t, at, in.Any())
		in.Release()
	}
}

func TestDifferencesDoNotNameTimesOfOneInstant(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	was, err := codec.Encode(map[string]any{"at": at, "n": 1, "due": at})
	require.NoError(t, err)
	now, err := codec.Encode(map[string]any{"at": at.In(time.FixedZone("", 60)), "n": 1, "due": at.Add(time.Second)})
	require.NoError(t, err)
	found, err := codec.Differences(was, now, 5)
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, "due: recorded 2026-01-02T03:04:05Z, now 2026-01-02T03:04:06Z", found[0].String())
}
