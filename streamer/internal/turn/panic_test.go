package turn

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// broken is an encoder that panics at the end of the run.
type broken struct{ plain }

func (b broken) Encode(e *Event) Frame {
	if e.Kind == Completed {
		panic("a bug")
	}
	return b.plain.Encode(e)
}

// The log is written by a goroutine in which net/http recovers no panic.
func TestPanicEndsOnlyTheResponsesThatShowTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := asking(t)
		h := NewHub(s, func(string) Encoder { return broken{} })
		defer h.Close()
		l, release, err := h.Open(t.Context(), "r")
		require.NoError(t, err)
		defer release()
		go s.continues()
		r := &Response{W: httptest.NewRecorder(), Heartbeat: time.Hour}
		require.NoError(t, r.Begin())
		message := func() (message string) {
			defer func() { message = recover().(error).Error() }()
			_, err := r.Follow(t.Context(), l, l.End(), nil)
			require.NoError(t, err)
			return ""
		}()
		assert.Contains(t, message, "a bug")
		assert.Contains(t, message, "broken.Encode", "the stack of the writer")
		again, release, err := h.Open(t.Context(), "r")
		require.NoError(t, err)
		defer release()
		assert.NotSame(t, l, again, "the next request reads the run anew")
		assert.Equal(t, http.StatusOK, r.W.(*httptest.ResponseRecorder).Code)
	})
}
