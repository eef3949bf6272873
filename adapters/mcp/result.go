package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// rawResult is the server's answer to tools/call: a result or a task.
type rawResult struct {
	ResultType string          `json:"resultType"`
	Content    []rawContent    `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	task
}

// rawContent is one item of a result's content, of any type.
type rawContent struct {
	Type        string       `json:"type"`
	Text        string       `json:"text"`
	MIME        string       `json:"mimeType"`
	Data        []byte       `json:"data"`
	Resource    *rawResource `json:"resource"`
	URI         string       `json:"uri"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Annotations struct {
		Audience []string `json:"audience"`
	} `json:"annotations"`
}

// rawResource is an embedded resource.
type rawResource struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType"`
	Text *string `json:"text"`
	Blob []byte  `json:"blob"`
}

// readResult decodes the result of a tool call.
func readResult(raw json.RawMessage) (*rawResult, error) {
	r := new(rawResult)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, badResult(err)
	}
	switch r.ResultType {
	case "", "complete", "task":
		return r, nil
	case "input_required":
		return nil, core.Permanent(errors.New("mcp: the server requires user input, which this client does not support"))
	}
	return nil, badResult(fmt.Errorf("resultType is %q, want complete or task", record.Truncate(r.ResultType, 80)))
}

// badResult returns the error for an invalid result.
func badResult(err error) error { return unreadable(fmt.Errorf("mcp: invalid tool result: %w", err)) }

// output returns the result in the form in which a model gets it. If the tool reported an error,
// output returns that error.
func (r *rawResult) output(forUsers bool) (actors.ToolOutput, error) {
	var out actors.ToolOutput
	var texts []string
	for i := range r.Content {
		c := &r.Content[i]
		if !forUsers && len(c.Annotations.Audience) > 0 && !slices.Contains(c.Annotations.Audience, "assistant") {
			continue
		}
		text, part, err := c.read()
		switch {
		case err != nil:
			return out, badResult(fmt.Errorf("content %d: %w", i+1, err))
		case part != nil:
			out.Parts = append(out.Parts, *part)
		default:
			texts = append(texts, text)
		}
	}
	out.Text = strings.Join(texts, "\n")
	if len(r.Structured) > 0 && string(r.Structured) != "null" && !hasValues(out.Text, r.Structured) {
		out.Text = strings.TrimPrefix(out.Text+"\n"+string(r.Structured), "\n")
	}
	if r.IsError {
		if out.Text == "" {
			out.Text = "the tool failed without a message"
		}
		return actors.ToolOutput{}, core.Permanent(&ServerError{Message: out.Text})
	}
	if out.Text == "" && len(out.Parts) == 0 {
		out.Text = "(no output)"
	}
	return out, nil
}

// hasValues reports whether text contains all strings and numbers of a JSON document. For clients
// that do not read structured content, a result's text should contain the same values, but some
// servers send a different text.
func hasValues(text string, document json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil || text == "" {
		return false
	}
	return contains(text, value)
}

func contains(text string, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if !contains(text, v) {
				return false
			}
		}
	case []any:
		for _, v := range value {
			if !contains(text, v) {
				return false
			}
		}
	case string:
		return strings.Contains(text, value) || strings.Contains(text, quoted(value))
	case json.Number:
		return strings.Contains(text, value.String())
	}
	return true
}

// quoted returns a string as it is written inside JSON.
func quoted(s string) string {
	raw, _ := json.Marshal(s) // a string can always be encoded
	return string(raw[1 : len(raw)-1])
}

// read returns a content item, either as text or as a part.
func (c *rawContent) read() (text string, part *actors.Part, err error) {
	switch c.Type {
	case "text":
		return c.Text, nil, nil
	case "image", "audio":
		if _, _, err := mime.ParseMediaType(c.MIME); err != nil {
			return "", nil, fmt.Errorf("the type of the %s is %q: %w", c.Type, record.Truncate(c.MIME, 80), err)
		}
		if len(c.Data) == 0 {
			return "", nil, fmt.Errorf("the %s is empty", c.Type)
		}
		return "", &actors.Part{MIME: c.MIME, Data: c.Data}, nil
	case "resource_link":
		text = c.URI
		if c.Name != "" {
			text = c.Name + ": " + text
		}
		if c.Description != "" {
			text += " (" + c.Description + ")"
		}
		return text, nil, nil
	case "resource":
		return c.Resource.read()
	}
	return "", nil, fmt.Errorf("unknown type %q, want text, image, audio, resource or resource_link", record.Truncate(c.Type, 80))
}

func (r *rawResource) read() (text string, part *actors.Part, err error) {
	switch {
	case r == nil:
		return "", nil, errors.New("the resource is missing")
	case r.Text != nil:
		return *r.Text, nil, nil
	case len(r.Blob) == 0:
		return "", nil, fmt.Errorf("the resource %q is empty", record.Truncate(r.URI, 80))
	}
	kind := r.MIME
	if _, _, err := mime.ParseMediaType(kind); err != nil {
		kind = "application/octet-stream"
	}
	return "", &actors.Part{MIME: kind, Data: r.Blob, Name: r.URI[strings.LastIndexByte(r.URI, '/')+1:]}, nil
}
