package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/codec"
)

// reply has no exported fields.
type reply struct{ text string }

func (r reply) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"text": r.text, "object": "reply"})
}

func (r *reply) UnmarshalJSON(data []byte) error {
	var m map[string]string
	err := json.Unmarshal(data, &m)
	r.text = m["text"]
	return err
}

// pointed has its methods only on the pointer.
type pointed struct{ n int }

func (p *pointed) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, " [ %d ] ", p.n), nil }
func (p *pointed) UnmarshalJSON(data []byte) error {
	_, err := fmt.Sscanf(string(data), "[%d]", &p.n)
	return err
}

type color int

func (c color) MarshalJSON() ([]byte, error) { return json.Marshal([]string{"red", "green"}[c]) }

func (c *color) UnmarshalJSON(data []byte) error {
	var name string
	err := json.Unmarshal(data, &name)
	switch name {
	case "red":
		*c = 0
	case "green":
		*c = 1
	default:
		err = errors.Join(err, fmt.Errorf("%q is not a color", name))
	}
	return err
}

type set map[string]struct{}

func (s set) MarshalJSON() ([]byte, error) {
	names := []string{}
	for name := range s {
		names = append(names, name)
	}
	return json.Marshal(names)
}

func (s *set) UnmarshalJSON(data []byte) error {
	var names []string
	err := json.Unmarshal(data, &names)
	*s = set{}
	for _, name := range names {
		(*s)[name] = struct{}{}
	}
	return err
}

// either holds one of two values, like a generated union type.
type either[A, B any] struct {
	a *A
	b *B
}

func (e either[A, B]) MarshalJSON() ([]byte, error) {
	if e.a != nil {
		return json.Marshal(map[string]any{"a": e.a})
	}
	return json.Marshal(map[string]any{"b": e.b})
}

func (e *either[A, B]) UnmarshalJSON(data []byte) error {
	var of struct {
		A *A `json:"a"`
		B *B `json:"b"`
	}
	err := json.Unmarshal(data, &of)
	e.a, e.b = of.A, of.B
	return err
}

func left[A any](a A) either[A, string] { return either[A, string]{a: &a} }

type carrier struct {
	Reply   reply            `json:"reply"`
	Pointed pointed          `json:"pointed"`
	Maybe   *reply           `json:"maybe"`
	None    *pointed         `json:"none"`
	List    []pointed        `json:"list"`
	Array   [2]reply         `json:"array"`
	By      map[string]reply `json:"by"`
	Keys    map[color]int    `json:"keys"`
	Color   color            `json:"color,omitempty"`
	Left    reply            `json:"left,omitempty"`
	Set     set              `json:"set"`
	Union   either[int, string]
	Deep    **reply
}

type promoted struct {
	reply
	Note string `json:"note"`
}

type embedding struct {
	*Exported
	N int `json:"n"`
}

// Exported is embedded.
type Exported struct{ n int }

func (e Exported) MarshalJSON() ([]byte, error)     { return json.Marshal(e.n) }
func (e *Exported) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &e.n) }

type twoEmbedded struct {
	Exported
	Other
}

// Other has the same methods as Exported, so a struct that embeds both has none of them.
type Other struct{ s string }

func (o Other) MarshalJSON() ([]byte, error)     { return json.Marshal(o.s) }
func (o *Other) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.s) }

func jsonValues() []any {
	r := reply{"deep"}
	p := &r
	return []any{
		reply{"hello"},
		&reply{"hello"}, (*reply)(nil),
		pointed{7},
		&pointed{7}, color(1), color(0),
		set{"a": {}},
		set{},
		set(nil),
		left(3),
		either[int, reply]{b: &reply{"right"}},
		[]reply{{"a"}, {}},
		[]*reply{nil, {"b"}},
		map[string]pointed{"x": {1}},
		map[color]string{1: "go"},
		[1]reply{{"x"}},
		&p,
		struct{ R reply }{reply{"r"}},
		twoEmbedded{Exported{3}, Other{"o"}},
		embedding{&Exported{4}, 1},
		embedding{N: 1},
		carrier{Reply: r, Pointed: pointed{1}, Maybe: &r, List: []pointed{{1}, {2}}, Array: [2]reply{r}, By: map[string]reply{"k": r}, Keys: map[color]int{1: 5}, Color: 1, Left: r, Set: set{"s": {}}, Union: left(9), Deep: &p},
	}
}

func TestTypeWithOnlyJSONMethodsIsKeptAsItsJSON(t *testing.T) {
	for i, v := range jsonValues() {
		name := fmt.Sprintf("%d %T", i, v)
		data, err := codec.Encode(v)
		require.NoError(t, err, name)
		got := reflect.New(reflect.TypeOf(v))
		require.NoError(t, codec.Decode(data, got.Interface()), name)
		assert.Equal(t, v, got.Elem().Interface(), name)
		require.NoError(t, codec.DecodeKnown(data, got.Interface()), name)
	}
}

func TestJSONInAnInterfaceIsDecodedToItsValue(t *testing.T) {
	for _, tt := range []struct{ value, want any }{
		{reply{"x"}, map[string]any{"text": "x", "object": "reply"}},
		{pointed{5}, []any{int64(5)}},
		{color(1), "green"},
		{map[color]reply{0: {"y"}}, map[string]any{"red": map[string]any{"text": "y", "object": "reply"}}},
		{huge{}, []any{1e30, 0.5, int64(-1), uint64(1 << 63)}},
	} {
		got := again(t, struct{ V any }{tt.value})
		assert.Equal(t, tt.want, got.V)
		assert.Equal(t, tt.want, again(t, []any{tt.value})[0])
		assert.Equal(t, tt.want, again(t, map[string]any{"v": tt.value})["v"])
		data, err := codec.Encode(tt.value)
		require.NoError(t, err)
		if codec.Describe(data) != "JSON" {
			continue
		}
		in := codec.NewReader(data)
		assert.Equal(t, tt.want, in.Any())
		in.Release()
	}
}

type huge struct{}

func (huge) MarshalJSON() ([]byte, error) {
	return []byte(`[1000000000000000000000000000000, 0.5, -1, 9223372036854775808]`), nil
}
func (*huge) UnmarshalJSON([]byte) error { return nil }

// recordedBefore returns a value in the old form, in which it is encoded by its kind.
func recordedBefore(t *testing.T, v any) []byte {
	t.Helper()
	data, err := codec.EncodeBefore(v)
	require.NoError(t, err)
	return data
}

// oldOrder has exported fields. In the old form, only these were kept.
type oldOrder struct {
	ID    string `json:"id"`
	Color color  `json:"color"`
}

func (o oldOrder) MarshalJSON() ([]byte, error)     { return fmt.Appendf(nil, "%q", o.ID), nil }
func (o *oldOrder) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.ID) }

func TestValuesRecordedInTheOldFormAreStillRead(t *testing.T) {
	order := oldOrder{"o-1", 1}
	for _, v := range []any{
		order, &order,
		[]oldOrder{order},
		map[string]*oldOrder{"x": &order},
		color(1),
		map[color]color{1: 0},
		set{"a": {}},
		json.RawMessage(`{"a":1}`), json.RawMessage("no JSON"),
		struct{ oldOrder }{order},
	} {
		got := reflect.New(reflect.TypeOf(v))
		require.NoError(t, codec.Decode(recordedBefore(t, v), got.Interface()), "%T", v)
		assert.Equal(t, v, got.Elem().Interface())
	}
	type promotes struct {
		Order
		Note string `json:"note"`
	}
	in := promotes{Order{"o-2"}, "n"}
	var out promotes
	require.NoError(t, codec.Decode(recordedBefore(t, in), &out))
	assert.Equal(t, in, out, "the fields of an embedded struct were encoded next to the others")
	assert.Equal(t, in, again(t, in))
}

// Order is embedded in a struct that has other fields.
type Order struct {
	ID string `json:"id"`
}

func (o Order) MarshalJSON() ([]byte, error)     { return fmt.Appendf(nil, "%q", o.ID), nil }
func (o *Order) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.ID) }

func TestMethodsOfAnEmbeddedStructDoNotHideTheFieldsNextToIt(t *testing.T) {
	in := promoted{reply{"x"}, "note"}
	out := again(t, in)
	assert.Equal(t, "note", out.Note)
}

func TestBytesAreKeptUnchanged(t *testing.T) {
	type holder struct {
		Raw  json.RawMessage `json:"raw"`
		Omit json.RawMessage `json:"omit,omitempty"`
	}
	for _, raw := range []json.RawMessage{nil, {}, json.RawMessage(` {"b": 1,  "a": 2}`), json.RawMessage(`{"cut`), json.RawMessage("\xff\x00")} {
		assert.Equal(t, holder{Raw: raw}, again(t, holder{Raw: raw}), "%q", raw)
		assert.Equal(t, raw, again(t, raw))
	}
	var raw json.RawMessage
	data, err := codec.Encode(reply{"x"})
	require.NoError(t, err)
	require.NoError(t, codec.Decode(data, &raw))
	assert.JSONEq(t, `{"text":"x","object":"reply"}`, string(raw), "the JSON of a value of another type")
}

func TestTypeThatLostItsMethodsDecodesItsJSONByItsFields(t *testing.T) {
	data, err := codec.Encode(struct{ R reply }{reply{"x"}})
	require.NoError(t, err)
	var out struct{ R struct{ Text string } }
	require.NoError(t, codec.Decode(data, &out))
	assert.Equal(t, "x", out.R.Text)
}

func TestTypesWithHalfAPairOrAnotherAreEncodedAsBefore(t *testing.T) {
	for _, v := range []any{
		writesOnly{1}, readsOnly{2}, v2Only{3}, *big.NewInt(5), big.NewInt(6), json.Number("7"), half{reply{"x"}, 1}, &both{"b"},
	} {
		got, err := codec.Encode(v)
		require.NoError(t, err)
		assert.Equal(t, recordedBefore(t, v), got, "%T", v)
	}
}

type (
	writesOnly struct{ N int }
	readsOnly  struct{ N int }
	v2Only     struct{ N int }
	half       struct {
		reply
		N int
	}
	both struct{ s string }
)

func (writesOnly) MarshalJSON() ([]byte, error) { return []byte("1"), nil }
func (*readsOnly) UnmarshalJSON([]byte) error   { return nil }
func (v2Only) MarshalJSONTo(any) error          { return nil }
func (*v2Only) UnmarshalJSONFrom(any) error     { return nil }
func (half) MarshalJSON() ([]byte, error)       { return []byte("1"), nil }

func (b *both) MarshalJSON() ([]byte, error)    { return nil, errors.New("must not be called") }
func (b *both) UnmarshalJSON([]byte) error      { return errors.New("must not be called") }
func (b *both) MarshalText() ([]byte, error)    { return []byte(b.s), nil }
func (b *both) UnmarshalText(data []byte) error { b.s = string(data); return nil }

type broken struct{ how string }

func (b broken) MarshalJSON() ([]byte, error) {
	switch b.how {
	case "panics":
		panic("boom")
	case "fails":
		return nil, errors.New("not today")
	case "deep":
		return []byte(strings.Repeat("[", 600) + strings.Repeat("]", 600)), nil
	}
	return []byte(b.how), nil
}

func (*broken) UnmarshalJSON([]byte) error { panic("bang") }

func TestErrorOfAJSONMethodNamesThePath(t *testing.T) {
	type holder struct{ Items []map[string]broken }
	for how, want := range map[string]string{
		"panics": "panic: boom", "fails": "not today", "": "returned invalid JSON", "{": "returned invalid JSON", "deep": "nested deeper",
	} {
		_, err := codec.Encode(holder{[]map[string]broken{nil, {"b": {how}}}})
		require.ErrorContains(t, err, ".Items[1][b]")
		require.ErrorContains(t, err, want)
	}
	data, err := codec.Encode(holder{[]map[string]broken{{"b": {"1"}}}})
	require.NoError(t, err)
	err = codec.Decode(data, new(holder))
	require.EqualError(t, err, "codec: decode into *codec_test.holder: Items[0].b: panic: bang")
	data, err = codec.Encode(map[string]any{"keys": map[string]color{"a": 1}})
	require.NoError(t, err)
	err = codec.Decode(data, &struct {
		Keys map[string]int `json:"keys"`
	}{})
	require.ErrorContains(t, err, "keys.a: json: cannot unmarshal string")
}

func TestJSONIsShownUnchanged(t *testing.T) {
	data, err := codec.Encode(map[string]any{"r": reply{"x"}, "k": map[color]pointed{1: {2}}})
	require.NoError(t, err)
	for _, show := range []func(dst, data []byte, limit int) ([]byte, error){codec.AppendJSON, codec.AppendReadable} {
		text, err := show(nil, data, 0)
		require.NoError(t, err)
		assert.JSONEq(t, `{"r":{"object":"reply","text":"x"},"k":{"green":[2]}}`, string(text))
	}
	text, err := codec.AppendRedacted(nil, data, 0, strings.ToUpper)
	require.NoError(t, err)
	assert.JSONEq(t, `{"R":{"OBJECT":"REPLY","TEXT":"X"},"K":{"GREEN":[2]}}`, string(text))
	data, err = codec.Encode(reply{strings.Repeat("x", 10000)})
	require.NoError(t, err)
	text, err = codec.AppendJSON(nil, data, 100)
	require.NoError(t, err)
	assert.Len(t, text, 100)
	text, err = codec.AppendJSON(nil, codec.AppendExt(nil, 'J', []byte("{no")), 0)
	require.NoError(t, err)
	assert.JSONEq(t, `{"ext":74,"data":"e25v"}`, string(text))
}

func TestIdentityTellsJSONApart(t *testing.T) {
	assert.NotEqual(t, identity(t, reply{"a"}), identity(t, reply{"b"}))
	assert.NotEqual(t, identity(t, struct{ R reply }{reply{"a"}}), identity(t, struct{ R reply }{reply{"b"}}))
	assert.NotEqual(t, identity(t, struct{ R reply }{}), identity(t, struct{ R reply }{reply{"b"}}))
	assert.NotEqual(t, identity(t, open{R: number{`{"n":0}`}}), identity(t, open{R: number{`{}`}}), "a member that is zero in the JSON counts")
	assert.NotEqual(t, identity(t, number{`{"n":1.0}`}), identity(t, number{`{"n":1}`}))
	assert.NotEqual(t, identity(t, []set{{}}), identity(t, []set{nil}))
	assert.NotEqual(t, identity(t, struct{ S set }{set{}}), identity(t, struct{ S set }{nil}))
	assert.Equal(t, identity(t, number{`{"a":1,"b":[{"c":2,"d":3}]}`}), identity(t, number{` {"b": [{"d":3,"c":2}], "a":1}`}), "the order of members does not count")
	assert.Equal(t, identity(t, struct{ N int }{1}), identity(t, struct {
		N int
		R reply
	}{N: 1}), "a new field that is zero changes nothing")
}

type open struct {
	R number
	V any
}

type number struct{ text string }

func (n number) MarshalJSON() ([]byte, error)     { return []byte(n.text), nil }
func (n *number) UnmarshalJSON(data []byte) error { n.text = string(data); return nil }

func TestIdentityOfJSONOutlivesDecoding(t *testing.T) {
	for _, v := range jsonValues() {
		assert.Equal(t, identity(t, anything{Value: v}), identity(t, again(t, anything{Value: v})), "%T", v)
		assert.Equal(t, identity(t, []any{v}), identity(t, again(t, []any{v})), "%T", v)
		live, err := codec.EncodeIdentityOfAny(v)
		require.NoError(t, err)
		live, err = codec.Canonical(live)
		require.NoError(t, err)
		if data, err := codec.Encode(v); codec.Describe(data) == "JSON" {
			require.NoError(t, err)
			var generic any
			require.NoError(t, codec.Decode(data, &generic))
			assert.Equal(t, live, identity(t, generic), "%T", v)
		}
		typed := reflect.New(reflect.TypeOf(v))
		data, err := codec.Encode(v)
		require.NoError(t, err)
		require.NoError(t, codec.Decode(data, typed.Interface()))
		assert.Equal(t, identity(t, v), identity(t, typed.Elem().Interface()), "%T", v)
	}
}

func TestManyGoroutinesUseATypeForTheFirstTime(t *testing.T) {
	type node struct {
		R    reply
		Next *node
		All  map[string][]node
		V    any
	}
	in := node{R: reply{"x"}, Next: &node{R: reply{"y"}}, All: map[string][]node{"k": {{R: reply{"z"}}}}}
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			data, err := codec.Encode(in)
			assert.NoError(t, err)
			var out node
			assert.NoError(t, codec.Decode(data, &out))
			assert.Equal(t, in, out)
			_, err = codec.EncodeIdentity(in)
			assert.NoError(t, err)
			_, err = codec.EncodeBefore(in)
			assert.NoError(t, err)
		})
	}
	wait.Wait()
}

// remembering is like the types of generated clients, which remember the JSON they were decoded
// from.
type remembering struct {
	ID   string `json:"id"`
	List []remembering
	JSON struct{ raw string } `json:"-"`
}

func (r remembering) RawJSON() string { return r.JSON.raw }

func (r *remembering) UnmarshalJSON(data []byte) error {
	type plain remembering
	err := json.Unmarshal(data, (*plain)(r))
	r.JSON.raw = string(data)
	return err
}

func TestTypeThatRemembersItsJSONIsKeptAsThatJSON(t *testing.T) {
	var live remembering
	require.NoError(t, json.Unmarshal([]byte(`{"id":"a","hidden":1,"List":[{"id":"b","hidden":2}]}`), &live))
	assert.Equal(t, live, again(t, live))
	assert.Equal(t, &live, again(t, &live))
	assert.Equal(t, map[string]any{"id": "a", "hidden": int64(1), "List": []any{map[string]any{"id": "b", "hidden": int64(2)}}}, again(t, []any{live})[0])

	changed := live
	changed.ID = "edited"
	out := again(t, changed)
	assert.Equal(t, "edited", out.ID, "the changed field is kept")
	assert.Empty(t, out.RawJSON())
	assert.Equal(t, live.List, out.List, "the unchanged part is kept as a whole")
	made := remembering{ID: "made", List: []remembering{{ID: "x"}}}
	assert.Equal(t, made, again(t, made))

	before, err := codec.EncodeIdentityBefore(live)
	require.NoError(t, err)
	before, err = codec.Canonical(before)
	require.NoError(t, err)
	assert.Equal(t, before, identity(t, live), "the hash has not changed")
	assert.Equal(t, identity(t, live), identity(t, again(t, live)))
	assert.Equal(t, identity(t, anything{Value: live}), identity(t, again(t, anything{Value: live})))
	assert.Equal(t, identity(t, anything{Value: made}), identity(t, again(t, anything{Value: made})))
	var read remembering
	require.NoError(t, codec.Decode(recordedBefore(t, live), &read))
	assert.Equal(t, remembering{ID: "a", List: []remembering{{ID: "b"}}}, read)
}
