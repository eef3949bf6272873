package tests

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/breaker"
	"github.com/reprise-go/reprise/policy/failover"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// exportedErrors contains all errors that a program can look for, by their qualified names.
var exportedErrors = map[string]error{
	"actors.ErrContextTooLong": actors.ErrContextTooLong, "actors.ErrFiltered": actors.ErrFiltered,
	"actors.ErrFormatUnsupported": actors.ErrFormatUnsupported, "actors.ErrNotApproved": actors.ErrNotApproved,
	"actors.ErrQuota": actors.ErrQuota, "actors.ErrRefused": actors.ErrRefused, "actors.ErrTurnLimit": actors.ErrTurnLimit,
	"actors.AnswerError":    &actors.AnswerError{Text: "seven", Asked: 2, Problem: "no number"},
	"actors.ArgumentsError": &actors.ArgumentsError{Function: "f", Err: errInner},
	"actors.GroupError": &actors.GroupError{Group: "g", Branches: 3, NotEnded: []int{3}, Failed: []actors.BranchError{
		{Branch: 1, Err: errInner}, {Branch: 2, Err: &core.CallError{Name: "tool", Reason: record.ReasonExhausted, Attempts: 3, Err: errInner}},
	}},
	"actors.UnfinishedError":    &actors.UnfinishedError{Finish: actors.FinishLength, Partial: "sev"},
	"actorstest.ErrScriptEnded": actorstest.ErrScriptEnded,
	"condition.Error":           &condition.Error{Line: 1, Column: 5, Problem: "unknown name"},
	"config.Error":              &config.Error{Problems: []config.Problem{{File: "retry.yaml", Line: 2, Column: 3, Key: "jitter", Text: "is 7"}}},
	"conversation.ErrPending":   conversation.ErrPending, "conversation.ErrNothingPending": conversation.ErrNothingPending, "conversation.ErrTurn": conversation.ErrTurn,

	"core.ErrAttemptOver": core.ErrAttemptOver, "core.ErrAwaiting": core.ErrAwaiting, "core.ErrBudget": core.ErrBudget,
	"core.ErrGroupTimeout":    core.ErrGroupTimeout,
	"core.ErrContextCanceled": core.ErrContextCanceled, "core.ErrCondition": core.ErrCondition, "core.ErrDeadline": core.ErrDeadline,
	"core.ErrDivergence": core.ErrDivergence, "core.ErrExhausted": core.ErrExhausted, "core.ErrInDoubt": core.ErrInDoubt,
	"core.ErrNoRun": core.ErrNoRun, "core.ErrNotRecorded": core.ErrNotRecorded, "core.ErrNotStored": core.ErrNotStored,
	"core.ErrPanic": core.ErrPanic, "core.ErrPermanent": core.ErrPermanent, "core.ErrPrecondition": core.ErrPrecondition,
	"core.ErrRetryAfterTooLong": core.ErrRetryAfterTooLong, "core.ErrRetryTimeout": core.ErrRetryTimeout,
	"core.ErrStorage": core.ErrStorage, "core.ErrUnfit": core.ErrUnfit,
	"core.CallError":         &core.CallError{Name: "tool", Stage: record.StageHandler, Reason: record.ReasonExhausted, Attempts: 3, Detail: "why", Err: errInner},
	"breaker.OpenError":      &breaker.OpenError{Breaker: "payments", After: time.Second},
	"core.CompensationError": &core.CompensationError{Failed: []core.FailedCompensation{{Name: "tool", Message: "no refund"}}},
	"core.DivergenceError":   &core.DivergenceError{RunID: "r", How: "order", Scope: "agent", Ordinal: 2, Recorded: "a", Asked: "b", Fields: []string{"x"}},
	"core.PanicError":        &core.PanicError{Value: "boom"},
	"core.TimeoutError":      &core.TimeoutError{Limit: time.Second, Err: errInner},

	"failover.Error": &failover.Error{Name: "models", Models: []string{"a", "b"}, Errs: []error{errInner, errInner}},

	"filestore.TornTail":  &filestore.TornTail{File: "journal", Offset: 3, Size: 4},
	"httperror.Error":     &httperror.Error{Code: 503, After: 3 * time.Second, Excerpt: "busy"},
	"openai.Error":        &openai.Error{Code: "busy", Message: "busy"},
	"record.ErrInDoubt":   record.ErrInDoubt,
	"record.ErrRedacted":  record.ErrRedacted,
	"runner.ErrCrashLoop": runner.ErrCrashLoop, "runner.ErrInput": runner.ErrInput,
	"runner.ErrStarted": runner.ErrStarted, "runner.ErrQueueClosed": runner.ErrQueueClosed, "runner.ErrNotStopped": runner.ErrNotStopped, "runner.ErrNotRegistered": runner.ErrNotRegistered,
	"runner.ErrClock": runner.ErrClock, "runner.ErrNoRunner": runner.ErrNoRunner, "runner.ErrNotReady": runner.ErrNotReady, "runner.ErrStopping": runner.ErrStopping, "runner.ErrTooMany": runner.ErrTooMany,
	"runner.CalledError":        &runner.CalledError{RunID: "r", Status: snapshot.StatusFailed, Message: "why"},
	"runner.InputError":         &runner.InputError{Program: "p", Version: "2", Err: errInner},
	"runner.NotRegisteredError": &runner.NotRegisteredError{Program: "p", Registered: []string{"q"}},

	"snapshot.ErrClosed": snapshot.ErrClosed, "snapshot.ErrCorrupt": snapshot.ErrCorrupt, "snapshot.ErrExists": snapshot.ErrExists,
	"snapshot.ErrFenced": snapshot.ErrFenced, "snapshot.ErrFilter": snapshot.ErrFilter, "snapshot.ErrFormat": snapshot.ErrFormat, "snapshot.ErrLease": snapshot.ErrLease,
	"snapshot.ErrLocked": snapshot.ErrLocked, "snapshot.ErrNotFound": snapshot.ErrNotFound, "snapshot.ErrPosted": snapshot.ErrPosted,
	"snapshot.ErrReset": snapshot.ErrReset, "snapshot.ErrUnavailable": snapshot.ErrUnavailable, "snapshot.ErrMaybeStored": snapshot.ErrMaybeStored,
	"snapshot.CorruptError": &snapshot.CorruptError{RunID: "r", File: "journal", Offset: 7, LastSeq: 2, Err: errInner},
	"snapshot.LockedError":  &snapshot.LockedError{RunID: "r", Owner: "host", PID: 7},

	"state.ErrAnswered": state.ErrAnswered, "state.ErrCancelled": state.ErrCancelled, "state.ErrClosed": state.ErrClosed, "state.ErrCompensated": state.ErrCompensated,
	"state.ErrEnded": state.ErrEnded, "state.ErrNotAsked": state.ErrNotAsked, "state.ErrNotEnded": state.ErrNotEnded,
	"state.ErrSelection": state.ErrSelection, "state.ErrNotFailed": state.ErrNotFailed, "state.ErrNotInterrupted": state.ErrNotInterrupted, "state.ErrNoProgram": state.ErrNoProgram,
	"state.ErrSignal": state.ErrSignal, "state.ErrTooManySignals": state.ErrTooManySignals,
	"state.ErrNotRunning": state.ErrNotRunning, "state.ErrStore": state.ErrStore,
	"state.ErrEffects":     state.ErrEffects,
	"state.EffectsError":   &state.EffectsError{Calls: []state.EffectCall{{Kind: record.KindTool, Name: "pay", Irreversible: true}}},
	"state.FailedError":    &state.FailedError{RunID: "r", Err: errInner},
	"state.CancelledError": &state.CancelledError{RunID: "r", By: "ops", Message: "wrong customer"},
	"streamer.ErrConflict": streamer.ErrConflict, "streamer.ErrInvalid": streamer.ErrInvalid, "streamer.ErrNotFound": streamer.ErrNotFound,
	"streamer.ErrUnauthenticated": streamer.ErrUnauthenticated, "streamer.ErrTooMany": streamer.ErrTooMany, "streamer.ErrUnavailable": streamer.ErrUnavailable,
	"streamer.ChallengeError": &streamer.ChallengeError{Challenge: "Basic"},
	"streamer.StatusError":    &streamer.StatusError{Code: 409, Message: "not now"},
}

// notOfCalls contains the errors that are never found in the error of a failed call, each with the
// reason.
var notOfCalls = map[string]string{
	"core.ErrInterrupted":      "a suspension is not a failure",
	"record.ErrInterrupted":    "a suspension is not a failure",
	"record.InterruptedError":  "a suspension is not a failure",
	"record.Error":             "it is the type of recorded errors",
	"openaitest.ErrUnexpected": "reported to the test by a server that imports no other package",
	"openaitest.ErrUnplayed":   "reported to the test by a server that imports no other package",
}

var errInner = fs.ErrNotExist // some of the errors wrap it, and it can be found in them

// TestEveryExportedErrorIsFoundAfterAResumeAsItIsLive also fails if a package exports an error that
// is missing from exportedErrors.
func TestEveryExportedErrorIsFoundAfterAResumeAsItIsLive(t *testing.T) {
	known := slices.Sorted(maps.Keys(exportedErrors))
	for name := range notOfCalls {
		known = append(known, name)
	}
	assert.ElementsMatch(t, errorsInSource(t), known, "the errors in the source and those in exportedErrors")

	for name, err := range exportedErrors {
		t.Run(name, func(t *testing.T) {
			store, storeErr := filestore.New(t.TempDir())
			require.NoError(t, storeErr)
			type seen struct {
				is      bool
				as      bool
				text    string
				inner   bool // errInner
				child   bool // whether the tool's error must be in the agent's error
				address string
			}
			look := func(got error) seen {
				target := reflect.New(reflect.TypeOf(err))
				s := seen{is: errors.Is(got, err), inner: errors.Is(got, errInner)}
				if reflect.TypeOf(err) == reflect.TypeOf(fs.ErrNotExist) { // a sentinel
					assert.True(t, s.is, "errors.Is")
				} else {
					s.is = false // after a resume, the error is a different value
					s.as = errors.As(got, target.Interface())
					assert.True(t, s.as, "errors.As")
					if found, ok := target.Elem().Interface().(error); ok && s.as && !isCallError(err) {
						s.text = found.Error()
						assert.Equal(t, err.Error(), found.Error())
					}
				}
				var parent, child *core.CallError
				if assert.ErrorAs(t, got, &parent) {
					if s.child = errors.As(parent.Err, &child); s.child {
						s.address = child.Address.String()
					}
				}
				assert.Equal(t, "agent/tool", s.address)
				return s
			}
			tool := decorators.Tool("tool", "", func(context.Context, struct{}) (string, error) { return "", core.Permanent(err) })
			agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (string, error) { return tool.Call(ctx, struct{}{}) })
			call := func(st *state.ExecutionState) seen {
				_, got := agent.Call(st.Context(t.Context()), struct{}{})
				require.NoError(t, st.Close())
				return look(got)
			}
			begin := func(options ...state.Option) *state.ExecutionState {
				st, err := state.Open(t.Context(), store, "run-1", options...)
				require.NoError(t, err)
				return st
			}
			live := call(begin())
			assert.Equal(t, live, call(begin()), "after a resume")
			assert.Equal(t, live, call(state.New(state.WithRoundTrip())), "with WithRoundTrip")
			assert.Equal(t, live, call(state.New()), "in memory")
		})
	}
}

func TestAgentTakesTheSameBranchOnErrorsOfTheStandardLibrary(t *testing.T) {
	_, noFile := os.Open("no such file")
	_, noNumber := strconv.Atoi("x")
	timeout := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	branch := func(err error) string {
		var path *fs.PathError
		var number *strconv.NumError
		var network net.Error
		switch {
		case errors.As(err, &path) && errors.Is(path.Err, fs.ErrNotExist):
			return "no file " + path.Path
		case errors.As(err, &number) && number.Err == strconv.ErrSyntax: //nolint:errorlint // as some programs compare
			return "no number " + number.Num
		case errors.As(err, &network) && network.Timeout():
			return "timeout: " + network.Error()
		}
		return "unknown"
	}
	for want, err := range map[string]error{"no file no such file": noFile, "no number x": noNumber, "timeout: read tcp: i/o timeout": timeout} {
		store, storeErr := filestore.New(t.TempDir())
		require.NoError(t, storeErr)
		ran := 0
		tool := decorators.Tool("tool", "", func(context.Context, struct{}) (string, error) { ran++; return "", core.Permanent(err) })
		call := func(options ...state.Option) string {
			st, openErr := state.Open(t.Context(), store, "run-1", options...)
			require.NoError(t, openErr)
			_, got := tool.Call(st.Context(t.Context()), struct{}{})
			require.NoError(t, st.Close())
			return branch(got)
		}
		assert.Equal(t, want, call())
		assert.Equal(t, want, call(), "after a resume")
		assert.Equal(t, 1, ran)
	}
}

func isCallError(err error) bool { _, ok := err.(*core.CallError); return ok } //nolint:errorlint // err itself, not an error that it wraps

// errorsInSource returns the names of the exported sentinel errors and error types in the public
// packages of this module.
func errorsInSource(t *testing.T) []string {
	t.Helper()
	found := make(map[string]bool)
	root := ".."
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root {
				return filepath.SkipDir
			}
			if engine := filepath.Join(root, "internal", "engine"); path == filepath.Dir(engine) || path == engine {
				return nil // core exports its errors
			}
			if filepath.Dir(path) == filepath.Join(root, "internal") {
				return filepath.SkipDir
			}
			switch entry.Name() {
			case "internal", "tests", "examples", "cmd", "testdata", "tools", ".git", ".bin":
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in := file.Name.Name
		if in == "engine" {
			in = "core"
		}
		for _, name := range errorsOf(file) {
			found[in+"."+name] = true
		}
		return nil
	}))
	require.Greater(t, len(found), 40)
	return slices.Sorted(maps.Keys(found))
}

func errorsOf(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		case *ast.FuncDecl:
			if d.Recv == nil || d.Name.Name != "Error" || len(d.Type.Params.List) > 0 {
				continue
			}
			of := d.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if name, ok := of.(*ast.Ident); ok && name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}
