package agui

import (
	"encoding/json"
	"testing"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"threadId":"a","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}}]}]}`))
	f.Add([]byte(`{"threadId":"a","runId":"r","messages":[{"id":"m","role":"user","content":"hi"}],"resume":[{"interruptId":"x","status":"resolved","payload":{"approved":true,"editedArgs":{}}},{"interruptId":"y","status":"cancelled"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := decode(data)
		if err != nil {
			return
		}
		if m := in.newMessage(); m != nil {
			if _, files, err := m.prompt(); err == nil && files != nil && !json.Valid(files) {
				t.Errorf("files are not JSON: %s", files)
			}
		}
		for i := range in.Resume {
			for _, approval := range []bool{true, false} {
				if value, err := in.Resume[i].value(approval); err == nil && !json.Valid(value) {
					t.Errorf("an answer is not JSON: %s", value)
				}
			}
		}
	})
}
