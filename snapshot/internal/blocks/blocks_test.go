package blocks_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/internal/blocks"
)

var parts = []string{"first", "", "third, which is longer", "fourth"}

func file(tb testing.TB) []byte {
	var out bytes.Buffer
	w := blocks.NewWriter(&out)
	for _, part := range parts {
		w.Block([]byte(part))
	}
	n, err := w.End([]byte("end"))
	require.NoError(tb, err)
	require.EqualValues(tb, out.Len(), n)
	return out.Bytes()
}

func TestBlocksAreReadAsTheyWereWritten(t *testing.T) {
	data := file(t)
	whole, err := blocks.Check(data)
	require.NoError(t, err)
	assert.Equal(t, "firstthird, which is longerfourthend", string(data[:whole-5]))

	r, err := blocks.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, len(parts)+1, r.Len())
	for _, i := range []int{3, 0, 2, 1, 3} {
		got, err := r.Block(i)
		require.NoError(t, err)
		assert.Equal(t, parts[i], string(got))
	}
}

// If a byte was changed or is missing, reading a block returns either what was written or an error.
func TestNoDamagedBlockIsReturned(t *testing.T) {
	data := file(t)
	for i := range data {
		changed := slices.Clone(data)
		changed[i]++
		requireDamage(t, changed)
		requireDamage(t, data[:i])
	}
}

func requireDamage(t *testing.T, data []byte) {
	t.Helper()
	whole, err := blocks.Check(data)
	require.Error(t, err)
	require.LessOrEqual(t, whole, len(data))
	r, err := blocks.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		require.ErrorIs(t, err, blocks.ErrNoTable)
		return
	}
	for i := range r.Len() - 1 {
		if got, err := r.Block(i); err == nil {
			require.Equal(t, parts[i], string(got))
		}
	}
}

func TestAnErrorOfTheFileIsReturned(t *testing.T) {
	full := errors.New("no space left")
	w := blocks.NewWriter(failing{full})
	w.Block([]byte("first"))
	_, err := w.End(nil)
	require.ErrorIs(t, err, full)
	_, err = blocks.NewReader(failing{full}, 100)
	require.ErrorIs(t, err, full)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error)         { return 0, f.err }
func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func FuzzReader(f *testing.F) {
	f.Add(file(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, err := blocks.Check(data)
		require.LessOrEqual(t, whole, len(data))
		r, opened := blocks.NewReader(bytes.NewReader(data), int64(len(data)))
		if opened != nil {
			return
		}
		end := 0
		for i := range r.Len() {
			block, failed := r.Block(i)
			if err == nil {
				require.NoError(t, failed)
				require.Equal(t, data[end:end+len(block)], block)
			}
			end += len(block)
		}
	})
}

func Example() {
	var out bytes.Buffer
	w := blocks.NewWriter(&out)
	w.Block([]byte("a block"))
	w.Block([]byte("another"))
	if _, err := w.End(nil); err != nil {
		fmt.Println(err)
		return
	}
	r, err := blocks.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := r.Block(1)
	fmt.Println(string(second), err)
	// Output: another <nil>
}
