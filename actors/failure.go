package actors

import (
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// Errors from models that a retry cannot fix. Use errors.Is to test for them in the error of an LLM
// or an agent, whether the error was returned or read from a record. They do not depend on the
// codes that a particular service uses.
var (
	ErrContextTooLong    = errors.New("the conversation is longer than the model's context")
	ErrQuota             = errors.New("the quota is used up, or the account is inactive")
	ErrRefused           = errors.New("the model refuses to answer")
	ErrFiltered          = errors.New("the service withheld the answer, or refused the request, because of the content")
	ErrFormatUnsupported = errors.New("the service does not support the format of the answer")
)

// An UnfinishedError is the failure of an agent whose model stopped in the middle of an answer. It
// is never retried, because the model would stop there again.
type UnfinishedError struct {
	Finish  Finish // FinishLength, FinishFilter, FinishRefusal or FinishError
	Partial string // the text that the model wrote before it stopped
}

// Error describes why the model stopped and what can be done.
func (e *UnfinishedError) Error() string {
	switch e.Finish {
	case FinishLength:
		return fmt.Sprintf("the answer was cut off by the token limit after %d bytes; raise ModelOptions.MaxTokens, or ask for less", len(e.Partial))
	case FinishFilter:
		return ErrFiltered.Error()
	case FinishRefusal:
		return fmt.Sprintf("%v: %s", ErrRefused, record.Truncate(e.Partial, 200))
	}
	return fmt.Sprintf("the service broke off the answer after %d bytes", len(e.Partial))
}

// Is reports whether target is the error for Finish: [ErrFiltered] or [ErrRefused].
func (e *UnfinishedError) Is(target error) bool {
	return target == ErrFiltered && e.Finish == FinishFilter || target == ErrRefused && e.Finish == FinishRefusal
}

func init() {
	for _, known := range []struct {
		name string
		err  error
	}{
		{"actors.ErrTurnLimit", ErrTurnLimit},
		{"actors.ErrContextTooLong", ErrContextTooLong},
		{"actors.ErrQuota", ErrQuota},
		{"actors.ErrRefused", ErrRefused},
		{"actors.ErrFiltered", ErrFiltered},
		{"actors.ErrFormatUnsupported", ErrFormatUnsupported},
	} {
		record.RegisterError(known.name, known.err)
	}
	record.RegisterErrorType[*UnfinishedError]("actors.UnfinishedError")
	record.RegisterErrorType[*ArgumentsError]("actors.ArgumentsError")
	record.RegisterErrorType[*GroupError]("actors.GroupError")
}
