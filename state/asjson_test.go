package state_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A sealed has no exported fields, only a JSON form.
type sealed struct{ text string }

func (s sealed) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string{"text": s.text}) }

func (s *sealed) UnmarshalJSON(data []byte) error {
	var m struct{ Text string }
	err := json.Unmarshal(data, &m)
	s.text = m.Text
	return err
}

// sealedProgram copies its input twice, and collects the idempotency keys of the second copy.
type sealedProgram struct {
	copies int
	keys   []string
	during func()
}

func (p *sealedProgram) agent(t *testing.T) *core.Definition[sealed, sealed] {
	t.Helper()
	first := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "first"}, func(_ context.Context, in sealed) (sealed, error) {
		p.copies++
		return in, nil
	})
	second := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "second"}, func(ctx context.Context, in struct{ In sealed }) (sealed, error) {
		key, err := core.IdempotencyKey(ctx)
		p.keys = append(p.keys, key)
		if p.during != nil {
			p.during()
		}
		return in.In, err
	})
	return testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, in sealed) (sealed, error) {
		out, err := first.Event().Execute(ctx, in)
		if err != nil {
			return sealed{}, err
		}
		return second.Event().Execute(ctx, struct{ In sealed }{out})
	})
}

func (p *sealedProgram) run(t *testing.T, s snapshot.Store, in sealed) (sealed, error) {
	t.Helper()
	d := p.agent(t)
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	out, err := d.Event().Execute(st.Context(t.Context()), in)
	require.NoError(t, st.Close())
	return out, err
}

func TestValueWithOnlyJSONIsRestoredAndHashed(t *testing.T) {
	s, p := memstore.New(), new(sealedProgram)
	out, err := p.run(t, s, sealed{"a"})
	require.NoError(t, err)
	assert.Equal(t, sealed{"a"}, out)
	out, err = p.run(t, s, sealed{"a"})
	require.NoError(t, err)
	assert.Equal(t, sealed{"a"}, out, "recalled")
	assert.Equal(t, 1, p.copies)
	_, err = p.run(t, s, sealed{"b"})
	require.ErrorIs(t, err, core.ErrDivergence)
	assert.ErrorContains(t, err, `recorded "a", now "b"`)
	stored, err := state.Input[sealed](t.Context(), s, "run-1")
	require.NoError(t, err)
	assert.Equal(t, sealed{"a"}, stored)
}

func TestCacheTellsValuesThatAreOnlyJSONApart(t *testing.T) {
	c := cache.New(cache.NewMemory(1<<20), cache.Options{})
	d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "echo", Interceptors: []core.Interceptor{c.Interceptor("", 0)}}, func(_ context.Context, in sealed) (sealed, error) { return in, nil })
	for _, text := range []string{"a", "b", "a", "b"} {
		out, err := d.Event().Execute(t.Context(), sealed{text})
		require.NoError(t, err)
		assert.Equal(t, sealed{text}, out)
	}
}

// A cache may hold outputs that were encoded before values were kept as JSON. They are empty, and
// must not be used.
func TestEmptyOutputOfAnOldCacheIsNotUsed(t *testing.T) {
	storage := cache.NewMemory(1 << 20)
	made := 0
	call := func() sealed {
		c := cache.New(&emptying{Storage: storage}, cache.Options{})
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "make", Interceptors: []core.Interceptor{c.Interceptor("", 0)}}, func(context.Context, int) (sealed, error) {
			made++
			return sealed{"made"}, nil
		})
		out, err := d.Event().Execute(t.Context(), 1)
		require.NoError(t, err)
		return out
	}
	assert.Equal(t, sealed{"made"}, call())
	assert.Equal(t, sealed{"made"}, call())
	assert.Equal(t, 2, made)
}

// emptying is a cache storage whose values were encoded before values were kept as JSON.
type emptying struct{ cache.Storage }

func (e *emptying) Get(ctx context.Context, key string) ([]byte, bool, error) {
	encoded, ok, err := e.Storage.Get(ctx, key)
	if ok {
		encoded, err = codec.EncodeBefore(sealed{"made"})
	}
	return encoded, ok, err
}

// fromBefore returns a store with the run as it would have been recorded before values were kept as
// JSON.
func fromBefore(t *testing.T, s snapshot.Store) snapshot.Store {
	t.Helper()
	before, err := codec.EncodeIdentityBefore(sealed{})
	require.NoError(t, err)
	hash, err := codec.Hash(before)
	require.NoError(t, err)
	held, err := codec.EncodeIdentityBefore(struct{ In sealed }{})
	require.NoError(t, err)
	hashOfHeld, err := codec.Hash(held)
	require.NoError(t, err)
	return copied(t, s, func(d *record.Detail, name string) {
		d.InputHash, d.Input = hash, before
		if name == "second" {
			d.InputHash, d.Input = hashOfHeld, held
		}
	})
}

// copied returns a store that contains the run as it would be if its process were killed now. It
// applies change to each detail that contains the hash of an input.
func copied(t *testing.T, s snapshot.Store, change func(d *record.Detail, name string)) snapshot.Store {
	t.Helper()
	loaded := testkit.LoadRun(t, s, "run-1")
	left := memstore.New()
	journal, err := left.Open(t.Context(), "run-1", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	for _, r := range loaded.Records {
		if r.Detail != nil && !r.Detail.InputHash.IsZero() {
			detail := *r.Detail
			change(&detail, r.Name)
			r.Detail = &detail
		}
		require.NoError(t, journal.Append(r))
	}
	require.NoError(t, journal.Close(t.Context(), snapshot.End{Status: snapshot.StatusInterrupted}))
	return left
}

func TestRunRecordedBeforeJSONKeepsItsKeys(t *testing.T) {
	s, p := memstore.New(), new(sealedProgram)
	var left snapshot.Store
	p.during = func() { left = fromBefore(t, s) }
	_, err := p.run(t, s, sealed{"a"})
	require.NoError(t, err)
	assert.Equal(t, []string{keyOf(t, codec.Encode)}, p.keys)

	resumed := new(sealedProgram)
	var again snapshot.Store
	resumed.during = func() { again = copied(t, left, func(*record.Detail, string) {}) }
	out, err := resumed.run(t, left, sealed{"a"})
	require.NoError(t, err, "the input has not changed")
	assert.Equal(t, sealed{"a"}, out)
	assert.Zero(t, resumed.copies, "the calls are recalled")
	resumed.during = nil
	_, err = resumed.run(t, again, sealed{"a"})
	require.NoError(t, err)
	want := keyOf(t, codec.EncodeIdentityBefore)
	assert.Equal(t, []string{want, want}, resumed.keys, "the idempotency key has not changed")
}

// keyOf returns the idempotency key of the second call if its input is encoded with encode.
func keyOf(t *testing.T, encode func(any) ([]byte, error)) string {
	t.Helper()
	encoded, err := encode(struct{ In sealed }{sealed{"a"}})
	require.NoError(t, err)
	hash, err := codec.Hash(encoded)
	require.NoError(t, err)
	h := sha256.New()
	for _, part := range []string{"run-1", "agent/second"} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(hash[:])
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func TestAnswerOfATypeThatIsOnlyJSONIsRead(t *testing.T) {
	ask := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "ask"}, func(ctx context.Context, _ string) ([]sealed, error) {
		return core.Await[[]sealed](ctx, "which?")
	})
	inJSON, err := state.JSONAnswer([]byte(`[{"text": "x"}, {"text": "y"}]`))
	require.NoError(t, err)
	for name, answer := range map[string]any{"as JSON": inJSON, "as a value": []sealed{{"x"}, {"y"}}} {
		s := memstore.New()
		call := func() ([]sealed, error) {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			return ask.Event().Execute(st.Context(t.Context()), "in")
		}
		_, err := call()
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, state.Answer(t.Context(), s, "run-1", "ask?1", "ann", answer), name)
		for range 2 {
			out, err := call()
			require.NoError(t, err, name)
			assert.Equal(t, []sealed{{"x"}, {"y"}}, out, name)
		}
	}
}
