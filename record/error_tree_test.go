package record_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// answering is an error with methods Is and As.
type answering struct{ is, as error }

func (e answering) Error() string        { return "answering" }
func (e answering) Is(target error) bool { return errors.Is(e.is, target) }
func (e answering) As(target any) bool   { return errors.As(e.as, target) }

// uncomparableError makes == panic if both operands have its type.
type uncomparableError []int

func (uncomparableError) Error() string { return "uncomparable" }

// randomError returns an error that may wrap other errors.
func randomError(rng *rand.Rand, depth int) error {
	leaves := []error{
		errStock, io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		fs.ErrNotExist, syscall.ENOENT, syscall.ECONNRESET, syscall.EPIPE, errors.New("boom"),
		uncomparableError{1},
		&quotaError{Limit: rng.IntN(9)},
		limitError{rng.IntN(9)},
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EEXIST},
	}
	if depth == 0 || rng.IntN(4) == 0 {
		return leaves[rng.IntN(len(leaves))]
	}
	inner := func() error { return randomError(rng, depth-1) }
	switch rng.IntN(4) {
	case 0:
		return fmt.Errorf("outer: %w", inner())
	case 1:
		return errors.Join(inner(), inner())
	case 2:
		return fmt.Errorf("%w, %w", inner(), inner())
	}
	return answering{inner(), inner()}
}

func TestRecordedErrorsMatchLikeTheOriginals(t *testing.T) {
	sentinels := []error{
		errStock, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, fs.ErrNotExist, fs.ErrExist,
		fs.ErrPermission, os.ErrDeadlineExceeded, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.ENOSPC, errors.ErrUnsupported,
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 5000 {
		err := randomError(rng, 4)
		recorded := record.ErrorOf(err)
		for _, s := range sentinels {
			require.Equal(t, errors.Is(err, s), errors.Is(recorded, s), "%v in %#v", s, err)
		}
		var quota, recordedQuota *quotaError
		require.Equal(t, errors.As(err, &quota), errors.As(recorded, &recordedQuota), "%#v", err)
		require.Equal(t, quota, recordedQuota)
		var limit, recordedLimit limitError
		require.Equal(t, errors.As(err, &limit), errors.As(recorded, &recordedLimit), "%#v", err)
		require.Equal(t, limit, recordedLimit)
	}
}
