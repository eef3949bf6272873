package actors

import (
	"encoding/json"
	"strings"
)

// Models are told to answer with a JSON document only. If nothing enforces that, many put the
// document into a fence, write something before it, or think aloud in <think> tags. If the
// document can be found, the model need not be asked, and paid, for another answer.

// maxDocuments limits how many places in an answer are tried as the beginning
// of a document.
const maxDocuments = 32

// documentIn returns the document in an answer that check accepts: the whole text, or else the
// last such document in it. problem says what is wrong with the last document in the text, or
// with the whole text if there is none.
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
