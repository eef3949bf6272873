package storekit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Pages of any length list the most recently updated run first, even if runs were updated at the
// same time or at an unknown time.
func TestPagesHoldEachRunOnce(t *testing.T) {
	var all []snapshot.Info
	for i := range 20 {
		info := snapshot.Info{RunID: fmt.Sprintf("run-%02d", i)}
		if i > 4 {
			info.Updated = time.Unix(int64(i/3), 0)
		}
		all = append(all, info)
	}
	whole, err := storekit.Page(snapshot.Filter{}, all)
	require.NoError(t, err)
	require.Len(t, whole.Runs, len(all))
	assert.Empty(t, whole.Next)
	assert.Equal(t, "run-18", whole.Runs[0].RunID)
	assert.Equal(t, "run-04", whole.Runs[19].RunID)

	for limit := 1; limit < len(all); limit++ {
		f := snapshot.Filter{Limit: limit}
		var got []snapshot.Info
		for {
			page, err := storekit.Page(f, all)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Runs), limit)
			got = append(got, page.Runs...)
			if f.After = page.Next; page.Next == "" {
				break
			}
		}
		require.Equal(t, whole.Runs, got, "limit %d", limit)
	}
	_, err = storekit.Page(snapshot.Filter{After: "yesterday"}, all)
	assert.ErrorContains(t, err, "want the Next of a page")
}

func TestAReferenceIsADigest(t *testing.T) {
	ref := storekit.Reference([]byte("sunny"))
	assert.True(t, storekit.IsReference(ref))
	for _, wrong := range []string{"", ref[1:], ref + "0", "../" + ref[3:], "A" + ref[1:], ref[:63] + "g"} {
		assert.False(t, storekit.IsReference(wrong), wrong)
	}
}
