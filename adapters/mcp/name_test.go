package mcp

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
)

func TestNamesOfToolsFitModelsAndStayApart(t *testing.T) {
	assert.Equal(t, "fs_read_file", toolName("fs", "read_file"))
	assert.Equal(t, "fs_a_b_748250f6", toolName("fs", "a.b"))
	seen := make(map[string]string)
	long := ""
	for range 200 {
		long += "x"
	}
	for _, tool := range []string{"a.b", "a_b", "a/b", "a b", "", "é", long, long + "y"} {
		name := toolName("s", tool)
		require.NoError(t, actors.CheckFunctionName(name), tool)
		require.Empty(t, seen[name], "%q", tool)
		seen[name] = "x"
	}
}

func FuzzToolName(f *testing.F) {
	f.Add("fs", "a.b")
	f.Add("a-client", "\x00\xff")
	f.Fuzz(func(t *testing.T, client, tool string) {
		if !clientName.MatchString(client) {
			return
		}
		name := toolName(client, tool)
		require.NoError(t, actors.CheckFunctionName(name))
		require.Equal(t, name, toolName(client, tool))
	})
}

// Results come from servers that may send anything.
func FuzzReadResult(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"image","mimeType":"image/png","data":"QUI="}],"isError":true}`,
		`{"content":[{"type":"resource","resource":{"uri":"a/b","blob":"QUI="}}],"structuredContent":{"a":1}}`, `{"resultType":"task","taskId":"1","ttlMs":null}`, `null`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readResult(json.RawMessage(raw))
		if err != nil {
			return
		}
		out, err := r.output(true)
		if err == nil && r.ResultType != "task" {
			require.True(t, out.Text != "" || len(out.Parts) > 0)
		}
	})
}

func FuzzObjectSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{}}`))
	f.Add([]byte(` { } `))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) && len(raw) > 0 {
			return
		}
		require.True(t, json.Valid(objectSchema(raw)), "%s", objectSchema(raw))
	})
}
