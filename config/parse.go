package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// MaxSize is the maximum size of a document, in bytes.
const MaxSize = 1 << 20

// maxDepth is the maximum nesting depth of a document.
const maxDepth = 100

// maxProblems is the maximum number of problems listed for a document.
const maxProblems = 100

// A reader reads one document.
type reader struct {
	problems, warnings []Problem
	visits             int // number of visited values; a value repeated by aliases counts each time
}

// read parses a YAML or JSON document and passes its value to decode. If there are problems, the
// error lists them.
func read(data []byte, decode func(value)) error {
	r := new(reader)
	if node := r.parse(data); node != nil {
		decode(value{r: r, node: node})
	}
	if len(r.problems) > 0 {
		sortProblems(r.problems)
		return &Error{r.problems}
	}
	return nil
}

func (r *reader) report(p Problem) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, p)
	}
}

// parse returns the root of the document, or nil if the document cannot be parsed.
func (r *reader) parse(data []byte) *yaml.Node {
	if len(data) > MaxSize {
		r.report(Problem{Line: 1, Column: 1, Text: fmt.Sprintf("the document has %d bytes; at most %d are read", len(data), MaxSize)})
		return nil
	}
	if !utf8.Valid(data) {
		line, column := position(data, invalidOffset(data))
		r.report(Problem{Line: line, Column: column, Text: "the document is not UTF-8"})
		return nil
	}
	if json.Valid(data) {
		in := &jsonReader{data: data, tokens: json.NewDecoder(bytes.NewReader(data))}
		in.tokens.UseNumber()
		node, err := in.next(0)
		if err != nil {
			line, column := position(data, in.offset)
			r.report(Problem{Line: line, Column: column, Text: err.Error()})
		}
		return node
	}
	return r.parseYAML(data)
}

func (r *reader) parseYAML(data []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		r.syntax(err)
		return nil
	}
	var document, second yaml.Node
	switch err := loader.Load(&document); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.MappingNode, Tag: tagMap, Line: 1, Column: 1} // empty, or only comments
	case err != nil:
		r.syntax(err)
		return nil
	case len(document.Content) != 1:
		r.report(Problem{Line: 1, Column: 1, Text: "the document is empty"})
		return nil
	}
	if err := loader.Load(&second); err == nil {
		r.report(Problem{Line: second.Line, Column: second.Column, Text: "a second document begins; want one"})
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	return document.Content[0]
}

// syntax reports an error from the YAML library.
func (r *reader) syntax(err error) {
	p := Problem{Line: 1, Column: 1, Text: err.Error()}
	var at *yaml.LoadError
	if errors.As(err, &at) {
		p.Text = at.Message
		if at.Mark.Line > 0 {
			p.Line, p.Column = at.Mark.Line, max(at.Mark.Column, 1)
		}
	}
	r.report(p)
}

// A jsonReader converts JSON to YAML nodes. It is needed because the YAML parser does not accept
// all JSON: for example, it rejects tabs between tokens and escaped surrogate pairs.
type jsonReader struct {
	data   []byte
	tokens *json.Decoder
	offset int // offset of the most recent token
}

func (in *jsonReader) next(depth int) (*yaml.Node, error) {
	in.offset = int(in.tokens.InputOffset())
	for in.offset < len(in.data) && bytes.IndexByte([]byte(" \t\r\n,:"), in.data[in.offset]) >= 0 {
		in.offset++
	}
	line, column := position(in.data, in.offset)
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: line, Column: column}
	token, err := in.tokens.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
		node.Kind, node.Tag = yaml.MappingNode, tagMap
		if token == '[' {
			node.Kind, node.Tag = yaml.SequenceNode, tagList
		}
		for in.tokens.More() {
			child, err := in.next(depth + 1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err = in.tokens.Token() // closing delimiter
		return node, err
	case string:
		node.Tag, node.Value = tagText, token
	case json.Number:
		node.Tag, node.Value = tagInt, token.String()
		if bytes.ContainsAny([]byte(token), ".eE") {
			node.Tag = tagFloat
		}
	case bool:
		node.Tag, node.Value = tagBool, fmt.Sprint(token)
	case nil:
		node.Tag, node.Value = tagNull, "null"
	}
	return node, nil
}

// position converts an offset to a line and a column in characters, both starting at 1.
func position(data []byte, offset int) (line, column int) {
	before := data[:min(offset, len(data))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

func invalidOffset(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
