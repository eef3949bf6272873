package main

import (
	"context"
	"encoding/json"

	"github.com/reprise-go/reprise/streamer/stored"
)

// A control lets the page interrupt runs and answer their questions.
type control struct {
	*stored.Control
	agents *fleet
}

// Answer answers a waiting run's question, and resumes the run.
func (c control) Answer(ctx context.Context, runID, questionID, by string, value json.RawMessage) error {
	if err := c.Control.Answer(ctx, runID, questionID, by, value); err != nil {
		return err
	}
	c.agents.resume(runID)
	return nil
}
