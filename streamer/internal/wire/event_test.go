package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

func TestRecordIsCutToTheLimitWhateverIsLong(t *testing.T) {
	long := strings.Repeat("\x01é", 40_000) // JSON encodes \x01 as six bytes
	address, err := record.ParseAddress(strings.Repeat("a/", 50_000) + "a")
	require.NoError(t, err)
	for name, change := range map[string]func(*record.Record){
		"name":     func(r *record.Record) { r.Name = long },
		"message":  func(r *record.Record) { r.Detail.Message = long },
		"error":    func(r *record.Record) { r.Err = errors.New(long) },
		"metadata": func(r *record.Record) { r.Detail.Metadata = map[string]any{"x": long} },
		"address":  func(r *record.Record) { r.Address = address },
		"run":      func(r *record.Record) { r.RunID = long },
		"all":      func(r *record.Record) { r.Name, r.Err, r.Detail.Message, r.RunID = long, errors.New(long), long, long },
		"no JSON":  func(r *record.Record) { r.Detail.Metadata = map[string]any{"x": func() {}, "y": long} },
	} {
		for _, limit := range []int{4 << 10, 60 << 10, 256 << 10} {
			rec := record.Record{RunID: "r", Seq: 7, Generation: 2, Kind: record.KindTool, Status: record.StatusFailed, Detail: &record.Detail{Usage: record.Usage{InputTokens: 3}}}
			change(&rec)
			data := wire.JSON(&rec, limit)
			assert.LessOrEqual(t, len(data), limit, "%s, %d", name, limit)
			var got struct {
				Seq    uint64
				Status string `json:"execution_status"`
				Usage  struct {
					In int `json:"input_tokens"`
				}
				Metadata map[string]any
			}
			require.NoError(t, json.Unmarshal(data, &got), name)
			assert.EqualValues(t, 7, got.Seq)
			assert.Equal(t, "failed", got.Status)
			assert.Equal(t, 3, got.Usage.In)
		}
	}
}
