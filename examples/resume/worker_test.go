package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/state"
)

func TestReportIsGrammatical(t *testing.T) {
	assert.Equal(t, "0 calls restored, 4 executed", formatReport(state.Report{Executed: 4}))
	assert.Equal(t, "1 call restored, 3 executed", formatReport(state.Report{Restored: 1, Executed: 3}))
	assert.Equal(t, "2 calls restored, 2 executed", formatReport(state.Report{Restored: 2, Executed: 2}))
}
