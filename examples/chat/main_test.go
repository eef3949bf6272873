package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConversationSurvivesRestarts(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	dir := t.TempDir()
	say := func(lines string) string {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), dir, "chat", "", strings.NewReader(lines), &out))
		return out.String()
	}
	assert.Equal(t, "> I do not know yet: tell me, as in \"My name is Ada\".\n> Nice to meet you, Grace!\n> \n", say("What is my name?\nMy name is Grace\n"))
	assert.Equal(t, "(earlier turns of this conversation: 2)\n> Your name is Grace, you told me.\n> \n", say("What is my name?\n"))
	assert.Regexp(t, `It is \d\d:\d\d\.`, say("What time is it?\n"))
}

func TestInterruptedTurnContinues(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelAfter{after: "Nice", cancel: cancel}
	require.NoError(t, run(ctx, dir, "chat", "", strings.NewReader("My name is Ada\n"), out))
	assert.NotContains(t, out.String(), "Ada!", "the program was stopped in the middle of the answer")

	var again bytes.Buffer
	require.NoError(t, run(t.Context(), dir, "chat", "", strings.NewReader("What is my name?\n"), &again))
	assert.Equal(t, "(earlier turns of this conversation: 1)\n> My name is Ada\nNice to meet you, Ada!\n> Your name is Ada, you told me.\n> \n", again.String())
}

// cancelAfter cancels the context as soon as text is written.
type cancelAfter struct {
	bytes.Buffer
	after  string
	cancel func()
}

func (c *cancelAfter) Write(data []byte) (int, error) {
	n, err := c.Buffer.Write(data)
	if strings.Contains(c.String(), c.after) {
		c.cancel()
	}
	return n, err
}

var _ io.Writer = (*cancelAfter)(nil)
