package actors

import (
	"encoding/json"
	"strings"
)

// Models are asked for a JSON document alone, and where nothing enforces that, many put it
// in a fence, say something before it, or think aloud in <think> tags. A document that can
// be read need not be paid for again.

// maxDocuments is how many documents are looked for in an answer.
const maxDocuments = 32

// documentIn returns the document of an answer that check accepts: the whole text, or else
// the last of those in it. The problem is that of the last document in the text, or of the
// whole text if there is none.
func documentIn(text string, check func(string) error) (document string, problem error) {
	whole := strings.TrimSpace(text)
	if problem = check(whole); problem == nil {
		return whole, nil
	}
	if _, answer, found := strings.Cut(whole, "</think>"); found {
		whole = answer
	}
	documents := objectsIn(whole)
	for i := len(documents) - 1; i >= 0; i-- {
		err := check(documents[i])
		if err == nil {
			return documents[i], nil
		}
		if i == len(documents)-1 {
			problem = err
		}
	}
	return "", problem
}

// objectsIn returns the JSON objects in a text, in their order, without those inside
// others.
func objectsIn(text string) []string {
	var found []string
	for range maxDocuments {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		text = text[begin:]
		var object json.RawMessage
		if json.NewDecoder(strings.NewReader(text)).Decode(&object) != nil {
			text = text[1:]
			continue
		}
		found = append(found, string(object))
		text = text[len(object):]
	}
	return found
}
