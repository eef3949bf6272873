package actors

import (
	"encoding/json"
	"strings"
)

// Models are told to answer with only a JSON document. If nothing enforces this, many put the
// document into a fence, write something before it, or think aloud in <think> tags. If the document
// can still be found, there is no need to pay for another answer.

// maxDocuments limits how many possible beginnings of a document are tried in one answer.
const maxDocuments = 32

// documentIn returns the document in an answer: the whole text if check accepts it; otherwise the
// last JSON object in the text that check accepts. If check accepts nothing, problem is the error
// for the last object in the text, or for the whole text if it contains no object.
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

// objectsIn returns the JSON objects in a text, in order, without objects inside
// other objects.
func objectsIn(text string) []string {
	var found []string
	for tries := 0; tries < maxDocuments; {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		text = text[begin:]
		if !beginsObject(text[1:]) {
			text = text[1:]
			continue
		}
		tries++
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

// beginsObject reports whether text, which comes after a brace, may be the rest of a JSON object.
// Otherwise the brace may belong to a formula or to code.
func beginsObject(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return text != "" && (text[0] == '"' || text[0] == '}')
}
