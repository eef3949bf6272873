package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

func TestAddressKnowsWhetherItIsABranch(t *testing.T) {
	for path, want := range map[string]bool{
		"agent/group:g/3": true, "group:g#2/1": true, "agent/group:g@2/3": true, "agent@2/group:g/12": true,
		"3": false, "agent/3": false, "agent/group:g": false, "agent/group:g/3/4": false, "agent/step:group": false, "": false,
	} {
		a, err := record.ParseAddress(path)
		require.NoError(t, err)
		assert.Equal(t, want, a.IsBranch(), path)
	}
}
