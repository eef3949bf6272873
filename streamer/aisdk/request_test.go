package aisdk

import (
	"encoding/json"
	"testing"
)

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"a","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"},{"type":"file","url":"data:image/png;base64,AA==","mediaType":"image/png"}]}]}`))
	f.Add([]byte(`{"id":"a","messages":[{"id":"r","role":"assistant","parts":[{"type":"dynamic-tool","toolCallId":"r:a?1~2","state":"output-available","output":1},{"state":"approval-responded","approval":{"id":"x","approved":false}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err != nil {
			return
		}
		if _, files, err := r.last().prompt(); err == nil && files != nil && !json.Valid(files) {
			t.Errorf("files are not JSON: %s", files)
		}
		answers, _ := r.last().answers()
		for _, a := range answers {
			if !json.Valid(a.value) {
				t.Errorf("an answer is not JSON: %s", a.value)
			}
		}
	})
}
