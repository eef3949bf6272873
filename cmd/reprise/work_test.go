package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func TestAnswerContinuesTheRun(t *testing.T) {
	dir := t.TempDir()
	_, err := refund(t, dir, "r7")
	require.ErrorIs(t, err, core.ErrAwaiting)

	assert.Equal(t, "QUESTION  ANSWER         TEXT\nrefund?1  true or false  refund \\x1b[31mit\\x1b[0m?\n\nto answer:\n  reprise answer r7 'refund?1' true\n",
		call(t, dir, "questions", "r7").text(t))
	var open []question
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "questions", "r7", "--json").text(t)), &open))
	require.Len(t, open, 1)
	assert.JSONEq(t, `{"type": "boolean"}`, string(open[0].Schema))
	open[0].Schema = nil
	assert.Equal(t, []question{{ID: "refund?1", Awaits: record.AwaitAnswer, Text: "refund \x1b[31mit\x1b[0m?"}}, open)

	paused, err := newStore(t, dir).Info(t.Context(), "r7")
	require.NoError(t, err)
	call(t, dir, "resume", "r7").failed(t, exitFailure, "run r7 is paused and waits for 1 answer; to see how to answer: reprise questions r7")
	now, err := newStore(t, dir).Info(t.Context(), "r7")
	require.NoError(t, err)
	assert.Equal(t, paused, now, "the run is not updated")
	call(t, dir, "answer", "r7", "refund?2", "true").failed(t, exitFailure,
		`run r7 has not asked question "refund?2"; it waits for refund?1`)
	assert.Equal(t, "question refund?1 of run r7 is answered; no program has resumed the run yet: it continues when its program opens it\n",
		call(t, dir, "answer", "r7", "refund?1", "true", "--by", "ann").text(t))
	call(t, dir, "answer", "r7", "refund?1", "false").failed(t, exitFailure,
		"question refund?1 of run r7 was already answered, and the first answer counts")
	call(t, dir, "answer", "r7", "other", "true").failed(t, exitFailure,
		`run r7 has not asked question "other" and does not wait for an answer`)
	assert.Equal(t, result{exitOK, "", "run r7 has no open questions\n"}, call(t, dir, "questions", "r7"))
	assert.Equal(t, "[]\n", call(t, dir, "questions", "r7", "--json").text(t))

	assert.Equal(t, "run r7 was answered, and continues when its program opens it\n", call(t, dir, "resume", "r7").text(t))
	approved, err := refund(t, dir, "r7")
	require.NoError(t, err)
	assert.True(t, approved)
	assert.Regexp(t, `ANSWER +to refund\?1 by ann\b`, call(t, dir, "show", "r7").text(t))
}

// A waitingContext ends when somebody begins to wait with a timeout.
type waitingContext struct {
	context.Context
	cancel func()
}

func (c waitingContext) Deadline() (time.Time, bool) {
	c.cancel()
	return c.Context.Deadline()
}

func TestInterruptAfterAnAnswerDoesNotHideThatItIsRecorded(t *testing.T) {
	for flag, want := range map[string]string{
		"--json=false": "question refund?1 of run r7 is answered\n",
		"--json":       "{\n  \"by\": \"ann\",\n  \"question\": \"refund?1\",\n  \"run_id\": \"r7\"\n}\n",
	} {
		dir := t.TempDir()
		_, err := refund(t, dir, "r7")
		require.ErrorIs(t, err, core.ErrAwaiting)
		ctx, cancel := context.WithCancel(t.Context())
		got := callContext(waitingContext{ctx, cancel}, dir, func(*environment) {}, "answer", "r7", "refund?1", "true", "--by", "ann", flag)
		cancel()
		assert.Equal(t, result{exitOK, want, ""}, got)
		approved, err := refund(t, dir, "r7")
		require.NoError(t, err)
		assert.True(t, approved)
	}
}

func TestUserNameIsRecordedByDefault(t *testing.T) {
	dir := t.TempDir()
	for user, as := range map[string]func(*environment){
		"root": func(env *environment) { env.username = func() string { return "root" } },
		"ann": func(env *environment) {
			env.getenv = func(key string) string { return map[string]string{"REPRISE_DIR": dir, "USER": "ann"}[key] }
		},
		"reprise": func(*environment) {},
	} {
		_, err := refund(t, dir, user)
		require.ErrorIs(t, err, core.ErrAwaiting)
		callWith(t, dir, as, "answer", user, "refund?1", "true").text(t)
		approved, err := refund(t, dir, user)
		require.NoError(t, err)
		assert.True(t, approved)
		assert.Regexp(t, `ANSWER +to refund\?1 by `+user+`\b`, call(t, dir, "show", user).text(t))
		assert.Regexp(t, `--by who +who asks; your user name by default \(default "`+user+`"\)`, callWith(t, dir, as, "cancel", "--help").text(t))
	}
}

func TestQuestionsOfAllRunsAreListed(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	assert.Equal(t, result{exitOK, "", "no open questions\n"}, call(t, dir, "questions"))
	assert.Equal(t, "[]\n", call(t, dir, "questions", "--json").text(t))
	for _, id := range []string{"r1", "r2", "r3"} {
		_, err := refund(t, dir, id)
		require.ErrorIs(t, err, core.ErrAwaiting)
	}
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	call(t, dir, "answer", "r2", "refund?1", "true").text(t)
	running, err := state.Open(t.Context(), newStore(t, dir), "r4") // this run has a question that is not in its info
	require.NoError(t, err)
	ask := define(t, record.KindTool, "ask", func(ctx context.Context, _ int) (int, error) { return core.Await[int](ctx, "how many?") })
	_, err = ask.Event().Execute(running.Context(t.Context()), 5)
	require.ErrorIs(t, err, core.ErrAwaiting)

	const text = `RUN  QUESTION  ANSWER         TEXT
r4   ask?1     an integer     how many?
r3   refund?1  true or false  refund \x1b[31mit\x1b[0m?
r1   refund?1  true or false  refund \x1b[31mit\x1b[0m?

to answer:
  reprise answer r4 'ask?1' 1
  reprise answer r3 'refund?1' true
  reprise answer r1 'refund?1' true
`
	assert.Equal(t, text, call(t, dir, "questions").text(t))
	var open []runQuestion
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "questions", "--json", "--status", "paused").text(t)), &open))
	require.Len(t, open, 2)
	assert.Equal(t, "r3 refund?1", open[0].RunID+" "+open[0].ID)
	assert.Equal(t, "r1 refund?1", open[1].RunID+" "+open[1].ID)

	cut := call(t, dir, "questions", "--limit", "2")
	assert.Equal(t, exitOK, cut.code)
	assert.Equal(t, "more runs have open questions than these 2; --limit 0 lists all\n", cut.stderr)
	assert.NotContains(t, cut.stdout, "r1")
	assert.NotEmpty(t, call(t, dir, "questions", "--limit", "3").text(t))
	call(t, dir, "questions", "r1", "--limit", "3").failed(t, exitUsage, "RUN r1 and --limit, which selects runs: want one or the other")
	call(t, dir, "questions", "r1", "r2").failed(t, exitUsage, `"r2" is one argument too many: usage is reprise questions [RUN] [flags]`)
	require.NoError(t, running.Close())

	damage(t, dir, "r3")
	damaged := call(t, dir, "questions")
	assert.Equal(t, exitFailure, damaged.code)
	assert.Contains(t, damaged.stderr, "`reprise repair r3` saves what can be read")
	assert.Contains(t, damaged.stdout, "answer r1 ")
	damaged = call(t, dir, "questions", "--json")
	assert.Equal(t, exitFailure, damaged.code)
	assert.Regexp(t, `^\{"error":"run r3 is damaged: .*","code":"damaged"\}\n$`, damaged.stderr)
}

func TestSignalIsReceivedByTheRun(t *testing.T) {
	dir := t.TempDir()
	wait := func() (int, error) {
		store, err := filestore.New(dir)
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close()) }()
		st, err := state.Open(t.Context(), store, "r8")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		tool := decorators.Tool("wait", "", func(ctx context.Context, _ struct{}) (int, error) { return core.Receive[int](ctx, "paid") })
		return tool.Call(st.Context(t.Context()), struct{}{})
	}
	_, err := wait()
	require.ErrorIs(t, err, core.ErrAwaiting)
	assert.Contains(t, call(t, dir, "show", "r8").text(t), "AWAITS SIGNAL wait?1: paid")
	assert.Equal(t, result{exitOK, "", "run r8 has no open questions\n"}, call(t, dir, "questions", "r8"))
	call(t, dir, "resume", "r8").failed(t, exitFailure, "run r8 is paused and waits for the signal paid")
	call(t, dir, "signal", "r8", "paid", "forty").failed(t, exitUsage, "the value is not JSON: invalid character 'o' in literal false (expecting 'a'); put a string in double quotes, and for the shell, put those in single quotes: '\"yes\"'")
	call(t, dir, "signal", "r8", "paid?", "40").failed(t, exitFailure, `signal "paid?" to run r8: it cannot be sent: want a name of 1 to 64 letters, digits, dots, dashes and underscores; nothing was sent`)
	assert.Equal(t, "signal paid was sent to run r8 and is stored until the run receives it\n", call(t, dir, "signal", "r8", "paid", "40", "--id", "i", "--by", "bank").text(t))
	var sent struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "signal", "r8", "paid", "50", "--json").text(t)), &sent))
	require.NotEmpty(t, sent.ID)
	call(t, dir, "signal", "r8", "paid", "50", "--id", sent.ID).text(t)
	messages, err := newStore(t, dir).Messages(t.Context(), "r8")
	require.NoError(t, err)
	assert.Len(t, messages, 2, "the second signal was sent twice")
	amount, err := wait()
	require.NoError(t, err)
	assert.Equal(t, 40, amount)
	assert.Regexp(t, `ANSWER +to wait\?1 by bank\b`, call(t, dir, "show", "r8").text(t))
	call(t, dir, "signal", "r8", "paid", "40").failed(t, exitFailure, `signal "paid" to run r8: it has ended: it is completed; nothing was sent`)
}

func TestHintsContainTheDirectory(t *testing.T) {
	for name, typed := range map[string]string{
		"data": "data", "my data": "'my data'", "it's": `'it'\''s'`, "$x;y": "'$x;y'", "über": "über",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			_, err := refund(t, name, "r7")
			require.ErrorIs(t, err, core.ErrAwaiting)
			command := "reprise --dir " + typed
			assert.Contains(t, call(t, "", "--dir", name, "show", "r7").text(t), " "+command+" answer r7 'refund?1' true\n")
			assert.Contains(t, call(t, "", "questions", "r7", "--dir="+name).text(t), " "+command+" answer r7 'refund?1' true\n")
			assert.Contains(t, call(t, "", "show", "r8", "--dir", name).stderr, "; `"+command+" runs` lists")
			assert.Contains(t, call(t, name, "show", "r7").text(t), " reprise answer r7 ", "the hint need not name the directory, since REPRISE_DIR is set")
		})
	}
}

func TestRejectedAnswerIsAskedForAgain(t *testing.T) {
	dir := t.TempDir()
	refund(t, dir, "r7")
	call(t, dir, "answer", "r7", "refund?1", `"perhaps"`).failed(t, exitFailure,
		"the answer does not fit: got a string, want a boolean; nothing was recorded, and question refund?1 is still open: `reprise questions r7` shows how to answer it")
	perhaps, err := record.Encode("perhaps") // as the answer to a question of an older program
	require.NoError(t, err)
	require.NoError(t, newStore(t, dir).Post(t.Context(), "r7", snapshot.Message{Record: record.Record{
		Time: time.Now(), Kind: record.KindAnswer, Status: record.StatusRecorded, Name: "refund?1", Detail: &record.Detail{Output: perhaps},
	}}))
	_, err = refund(t, dir, "r7")
	require.ErrorIs(t, err, core.ErrAwaiting)
	assert.Contains(t, call(t, dir, "questions", "r7").text(t), `(again: the answer "perhaps" does not fit: `)
	var open []question
	require.NoError(t, json.Unmarshal([]byte(call(t, dir, "questions", "r7", "--json").text(t)), &open))
	require.Len(t, open, 1)
	assert.NotEmpty(t, open[0].Refused)
	call(t, dir, "answer", "r7", "refund?1", "true").text(t)
	approved, err := refund(t, dir, "r7")
	require.NoError(t, err)
	assert.True(t, approved)
}

func TestCallInDoubtIsAnsweredInJSON(t *testing.T) {
	dir, ran := t.TempDir(), 0
	type receipt struct {
		ID   int       `json:"id"`
		Tags []string  `json:"tags"`
		At   time.Time `json:"at"`
	}
	stop := true
	pay := func() (receipt, error) {
		st, err := state.Open(t.Context(), newStore(t, dir), "r7")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		return core.Step(st.Context(t.Context()), "pay", func(ctx context.Context) (receipt, error) {
			ran++
			if stop {
				st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			}
			return receipt{}, ctx.Err()
		}, core.StepInDoubt(core.InDoubtAsk))
	}
	_, err := pay()
	require.ErrorIs(t, err, record.ErrInterrupted)
	stop = false
	_, err = pay()
	require.ErrorIs(t, err, core.ErrAwaiting)
	asked := call(t, dir, "questions", "r7").text(t)
	assert.Contains(t, asked, "step:pay?in-doubt1")
	assert.Contains(t, asked, "has it? (", "the answers are not repeated in the table")
	assert.Contains(t, asked, `
to answer:
  reprise answer r7 'step:pay?in-doubt1' '{"decision": "completed", "output": JSON}'
  reprise answer r7 'step:pay?in-doubt1' '{"decision": "run_again"}'
  reprise answer r7 'step:pay?in-doubt1' '{"decision": "failed", "message": "why"}'
`)
	call(t, dir, "answer", "r7", "step:pay?in-doubt1", `{"decision": "completed", "output": JSON}`).failed(t, exitUsage,
		"the answer is not JSON: invalid character 'J' looking for beginning of value; put a string in double quotes, and for the shell, put those in single quotes: '\"yes\"'")
	call(t, dir, "answer", "r7", "step:pay?in-doubt1", `{"decision": "DECISION"}`).failed(t, exitFailure,
		"the answer does not fit: decision: got \"DECISION\", want one of \"completed\", \"run_again\", \"failed\", and \"take_over\" for an effect;"+
			" nothing was recorded, and question step:pay?in-doubt1 is still open: `reprise questions r7` shows how to answer it")
	call(t, dir, "answer", "r7", "step:pay?in-doubt1", `{"decision": "completed", "output": {"id": 7, "tags": ["by", "hand"], "at": "2026-11-20T08:30:00Z"}}`).text(t)
	got, err := pay()
	require.NoError(t, err)
	assert.Equal(t, receipt{7, []string{"by", "hand"}, time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)}, got)
	assert.Equal(t, 1, ran)
}

func TestAnswersAreValuesOfJSON(t *testing.T) {
	for text, want := range map[string]any{
		"true": true, "null": nil, `"x"`: "x", "-5": int64(-5), "18446744073709551615": uint64(1<<64 - 1),
		"1.5": 1.5, "1e3": 1e3, "[1]": []any{int64(1)}, `{"a": {"b": [2]} }`: map[string]any{"a": map[string]any{"b": []any{int64(2)}}},
	} {
		got, err := state.JSONAnswer([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"": "it is empty", "{": "it ends in the middle", "1 2": "unexpected data after the value", "[1]]": "unexpected data after the value",
		"1e999": "the number 1e999 is too large", "yes": "invalid character 'y' looking for beginning of value",
	} {
		call(t, t.TempDir(), "answer", "r7", "q", text).failed(t, exitUsage,
			"the answer is not JSON: "+want+"; put a string in double quotes, and for the shell, put those in single quotes: '\"yes\"'")
	}
}

func TestForkBeginsBeforeTheCall(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "old", true, snapshot.Metadata{})
	assert.Regexp(t, `^run new begins before agent/tell of run old, with \d+ records; open it to continue\n$`,
		call(t, dir, "fork", "old", "agent/tell", "new").text(t))
	assert.Contains(t, call(t, dir, "runs").text(t), "old", "the fork names its parent")
	weather(t, dir, "new", false, snapshot.Metadata{}) // resumes the run: only agent/tell is called

	call(t, dir, "fork", "old", "agent/tell", "new").failed(t, exitFailure, "run new already exists; choose another ID")
	call(t, dir, "fork", "old", "agent/tell", "old").failed(t, exitFailure, "run old already exists; choose another ID")
	call(t, dir, "fork", "old", "agent/nothing", "newer").failed(t, exitFailure,
		"run old has no call at agent/nothing; its calls are agent, agent/look, agent/tell")
	assert.Equal(t, exitUsage, call(t, dir, "fork", "old", "agent//x", "newer").code)
	assert.Equal(t, exitUsage, call(t, dir, "fork", "old", "agent", "../newer").code)
}

func TestForkRefusesToKeepACompensatedCallAndMayHaveNewKeys(t *testing.T) {
	dir := t.TempDir()
	var keys []string
	book := decorators.Tool("book", "", func(ctx context.Context, _ struct{}) (string, error) {
		key, err := core.IdempotencyKey(ctx)
		keys = append(keys, key)
		return key, err
	}).Compensate(func(context.Context, struct{}, string) error { return nil })
	fails := true
	trip := decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := book.Call(ctx, struct{}{}); err != nil {
			return "", err
		}
		if fails {
			return "", errors.New("sold out")
		}
		return core.Step(ctx, "pack", func(context.Context) (string, error) { return "packed", nil })
	})
	travel := func(id string) {
		store, err := filestore.New(dir)
		require.NoError(t, err)
		st, err := state.Open(t.Context(), store, id, state.WithCompensations(book))
		require.NoError(t, err)
		_, _ = trip.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, st.Close())
	}
	travel("failed")
	fails = false
	travel("done")
	call(t, dir, "fork", "done", "trip/step:pack", "kept").text(t)
	call(t, dir, "fork", "done", "trip/book", "same", "--repeat-effects").text(t)
	call(t, dir, "fork", "done", "trip/book", "other", "--new-keys", "--repeat-effects").text(t)
	for _, id := range []string{"kept", "same", "other"} {
		travel(id)
	}
	require.Len(t, keys, 4)
	assert.Equal(t, keys[1], keys[2])
	assert.NotEqual(t, keys[1], keys[3])
	call(t, dir, "fork", "failed", "trip/book@undo/book", "new").failed(t, exitFailure, "fork run failed: the fork would keep calls that were compensated: trip/book; fork at trip/book or at a call before it")
}

func TestDeleteAsksFirst(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	call(t, dir, "delete", "oslo").failed(t, exitFailure, "no terminal to ask for confirmation; --yes deletes without asking")
	for _, said := range []string{"n\n", "\n", "yep\n"} {
		assert.Equal(t, result{exitFailure, "", "Delete run oslo permanently? [y/N] reprise: nothing was deleted\n"},
			callWith(t, dir, atTerminal(said), "delete", "oslo"))
	}
	assert.Equal(t, result{exitFailure, "", "Delete run oslo permanently? [y/N] \nreprise: nothing was deleted\n"},
		callWith(t, dir, atTerminal(""), "delete", "oslo"))
	assert.Contains(t, call(t, dir, "runs").text(t), "oslo")

	assert.Equal(t, result{exitOK, "deleted oslo\n", "Delete run oslo permanently? [y/N] "},
		callWith(t, dir, atTerminal("Yes\n"), "delete", "oslo"))
	assert.Equal(t, "no runs\n", call(t, dir, "runs").stderr)
	call(t, dir, "delete", "--yes", "oslo").failed(t, exitFailure, noRun("oslo", dir))
	callWith(t, dir, atTerminal("y\n"), "delete", "oslo").failed(t, exitFailure, noRun("oslo", dir))
}

func TestDamagedRunCanBeDeleted(t *testing.T) {
	dir := t.TempDir()
	damage(t, dir, weather(t, dir, "oslo", false, snapshot.Metadata{}))
	assert.Equal(t, "deleted oslo\n", callWith(t, dir, atTerminal("y\n"), "delete", "oslo").stdout)
}

func TestInterruptEndsTheQuestion(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	ctx, cancel := context.WithCancel(t.Context())
	silent, never := io.Pipe()
	defer never.Close()
	got := callContext(ctx, dir, func(env *environment) {
		env.stdin, env.terminal = silent, true
		env.stderr = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	}, "delete", "oslo")
	assert.Equal(t, exitInterrupted, got.code)
	assert.Contains(t, call(t, dir, "runs").text(t), "oslo")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRunThatIsOpenIsReadButNotChanged(t *testing.T) {
	dir := t.TempDir()
	refund(t, dir, "r7")
	st, err := state.Open(t.Context(), newStore(t, dir), "r7")
	require.NoError(t, err)
	defer st.Close()
	for _, args := range [][]string{{"delete", "-y", "r7"}, {"repair", "r7"}} {
		got := call(t, dir, args...)
		assert.Equal(t, exitFailure, got.code)
		assert.Regexp(t, `^reprise: run r7 is open for writing in process \d+; it can still be read; to change it, wait until that program has closed it, or stop it with .reprise interrupt r7.\n$`, got.stderr)
	}
	got := call(t, dir, "delete", "-y", "r7", "--json")
	assert.Regexp(t, `^\{"error":"run r7 is open .*","code":"locked"\}\n$`, got.stderr)
	for _, args := range [][]string{{"show", "r7"}, {"questions", "r7"}, {"verify", "r7"}, {"fork", "r7", "refund", "new"}} {
		call(t, dir, args...).text(t)
	}
	assert.Contains(t, call(t, dir, "runs").text(t), "running")
}

func TestAnswerAndInterruptReachARunThatIsOpen(t *testing.T) {
	dir := t.TempDir()
	refund(t, dir, "r7")
	call(t, dir, "interrupt", "r7").failed(t, exitFailure,
		"interrupt run r7: no process is running it: it is paused; `reprise runs --status running` lists the runs that can be interrupted")
	st, err := state.Open(t.Context(), newStore(t, dir), "r7")
	require.NoError(t, err)
	ctx := st.Context(t.Context())
	assert.Equal(t, "question refund?1 of run r7 is answered; a program has the run open, and the call continues when that program resumes the run\n",
		call(t, dir, "answer", "r7", "refund?1", "true").text(t))
	call(t, dir, "answer", "r7", "refund?1", "false").failed(t, exitFailure,
		"question refund?1 of run r7 was already answered, and the first answer counts")
	assert.Equal(t, result{exitOK, "", "run r7 has no open questions\n"}, call(t, dir, "questions", "r7"))

	assert.Equal(t, "run r7 was asked to stop; its calls end when they notice\n",
		call(t, dir, "interrupt", "r7", "--message", "deploy", "--by", "ops").text(t))
	assert.Contains(t, call(t, dir, "show", "r7").text(t), "\nops has asked to interrupt it: deploy\n")
	<-ctx.Done()
	assert.Equal(t, &record.InterruptedError{Reason: record.InterruptUser, By: "ops", Message: "deploy"}, st.Interrupted())
	assert.JSONEq(t, `{"run_id": "r7", "by": "reprise", "message": ""}`, call(t, dir, "interrupt", "r7", "--json").text(t))
	require.NoError(t, st.Close())

	approved, err := refund(t, dir, "r7")
	require.NoError(t, err)
	assert.True(t, approved)
	assert.Equal(t, exitFailure, call(t, dir, "interrupt", "r7").code)
}

func TestCancelEndsARunPermanently(t *testing.T) {
	dir := t.TempDir()
	refund(t, dir, "r7")
	assert.Equal(t, "run r7 is cancelled (by ops: not\\x1b[31m now)\n", call(t, dir, "cancel", "r7", "--by", "ops", "--message", "not\x1b[31m now").text(t))
	assert.JSONEq(t, `{"run_id": "r7", "status": "cancelled", "by": "reprise", "message": ""}`, call(t, dir, "cancel", "r7", "--json").text(t))
	assert.Equal(t, exitFailure, call(t, dir, "answer", "r7", "refund?1", "true").code, "no call waits for an answer now")
	_, err := state.Open(t.Context(), newStore(t, dir), "r7")
	require.ErrorIs(t, err, state.ErrCancelled)
	assert.Contains(t, call(t, dir, "show", "r7").text(t), "CANCELLED")

	weather(t, dir, "oslo", false, snapshot.Metadata{})
	call(t, dir, "cancel", "oslo").failed(t, exitFailure, "cancel run oslo: it has ended: it is completed; a run that has ended cannot be cancelled")

	st, err := state.Open(t.Context(), newStore(t, dir), "r8")
	require.NoError(t, err)
	ctx := st.Context(t.Context())
	assert.Equal(t, "run r8 was asked to stop, and will be cancelled when the program that has it open closes it\n", call(t, dir, "cancel", "r8").text(t))
	<-ctx.Done()
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusCancelled, st.Status())
	assert.Regexp(t, `(?m)^r8 +cancelled .* by reprise$`, call(t, dir, "runs").text(t))
}
