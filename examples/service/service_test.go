package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/streamer"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"service": func(...string) error {
		main()
		return nil
	}})
}

func TestUnknownArgumentIsRefused(t *testing.T) { process.RefusesArguments(t, "service") }

// begin starts the program, and returns its process and its URL.
func begin(t *testing.T, dir string) (*exec.Cmd, string) {
	cmd := process.Command(t, "service", "-addr", "127.0.0.1:0", "-dir", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, url, ok := strings.Cut(strings.TrimSpace(line), "are at ")
	require.True(t, ok, line)
	return cmd, url
}

func post(t *testing.T, url, body string) {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, resp.StatusCode)
}

func get(t *testing.T, url string) string {
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func until(t *testing.T, url, run, name string) {
	client := &streamer.Client{URL: url, Run: run}
	for e, err := range client.Events(context.WithoutCancel(t.Context())) {
		require.NoError(t, err)
		if e.Name == name {
			return
		}
	}
}

// TestKilledServiceContinues kills the program while one run makes a call and another run waits for
// an answer. The answer is then sent to the next process.
func TestKilledServiceContinues(t *testing.T) {
	dir := t.TempDir()
	first, url := begin(t, dir)
	post(t, url+"api/runs", `{"program": "report", "run_id": "report-1", "input": {"topic": "tides", "sections": 2}}`)
	post(t, url+"api/runs", `{"program": "refund", "run_id": "refund-1", "input": {"order": "A-17", "euros": 40}}`)
	until(t, url, "refund-1", "run_paused")
	until(t, url, "report-1", "completed") // wait for its first section
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()

	second, url := begin(t, dir)
	post(t, url+"api/runs/refund-1/answer", `{"question": "refund?1", "value": true}`)
	until(t, url, "refund-1", "run_completed")
	require.Contains(t, get(t, url+"api/runs/refund-1/result"), "40 € paid back for order A-17")
	until(t, url, "report-1", "run_completed")
	require.Contains(t, get(t, url+"api/runs/report-1/result"), `1. About tides.\n2. About tides.`)
	require.NoError(t, second.Process.Signal(os.Interrupt))
	require.NoError(t, second.Wait())
}

// TestKilledChatAnswersInTheEnd kills the service while it streams an answer. The next process must
// return the complete answer, once.
func TestKilledChatAnswersInTheEnd(t *testing.T) {
	dir := t.TempDir()
	first, url := begin(t, dir)
	require.Contains(t, get(t, url+"chat/"), "<title>Chat</title>")
	client := &streamer.Client{URL: url}
	_, err := client.Send(t.Context(), "ann", streamer.ThreadMessage{Text: "hello"})
	require.NoError(t, err)
	completed(t, client, 1)
	turn, err := client.Send(t.Context(), "ann", streamer.ThreadMessage{Text: "how are you?"})
	require.NoError(t, err)
	stream := &streamer.Client{URL: url, Run: turn.RunID, Deltas: true}
	text := ""
	for e, err := range stream.Events(t.Context()) {
		require.NoError(t, err)
		var d streamer.Delta
		if e.Name != "delta" {
			continue
		}
		require.NoError(t, e.Decode(&d))
		if text += d.Text; strings.Contains(text, "sent") {
			break
		}
	}
	require.NotContains(t, text, "about it", "the answer is not complete")
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()

	second, url := begin(t, dir)
	until(t, url, turn.RunID, "run_completed")
	client = &streamer.Client{URL: url}
	last := completed(t, client, 2)
	require.Equal(t, `You have sent 2 messages so far. The last one was "how are you?". I am a script and cannot say more about it.`, last.Answer)
	require.NoError(t, second.Process.Signal(os.Interrupt))
	require.NoError(t, second.Wait())
}

// completed waits until the end of the last turn is stored, which happens shortly after the turn's
// last event, and returns that turn. The thread must have the given number of turns.
func completed(t *testing.T, client *streamer.Client, number int) streamer.ThreadTurn {
	t.Helper()
	for {
		turns, err := client.Thread(t.Context(), "ann")
		require.NoError(t, err)
		require.Len(t, turns, number)
		if last := turns[number-1]; last.Status == "completed" {
			return last
		}
	}
}
