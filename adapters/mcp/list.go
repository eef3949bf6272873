package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// A Listed is a tool as its server lists it. It is what a run has on record of a tool.
type Listed struct {
	Name        string `json:"name"`        // for models
	ServerName  string `json:"server_name"` // for the server
	Description string `json:"description,omitempty"`
	Schema      string `json:"schema"` // of the arguments, as the server has written it

	ReadOnly    bool `json:"read_only,omitempty"`
	Destructive bool `json:"destructive,omitempty"` // as is every tool that does not say that it is not
	Idempotent  bool `json:"idempotent,omitempty"`

	LeftOut string `json:"left_out,omitempty"` // why models do not see the tool; empty if they do
}

// A listing is the record of a list.
type listing struct {
	Tools []Listed `json:"tools"`
	Tasks bool     `json:"tasks,omitempty"` // the server may answer with a task
}

// rawTool is a tool in the list of a server.
type rawTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations struct {
		ReadOnly    bool  `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		Idempotent  bool  `json:"idempotentHint"`
	} `json:"annotations"`
	Execution struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

// maxTools is how many tools a server may list: models take far fewer.
const maxTools = 10_000

// list asks the server for its tools.
func (c *Client) list(ctx context.Context) (listing, error) {
	var l listing
	ctx, cancel := c.withTimeout(ctx)
	defer cancel()
	cursor, seen := "", map[string]bool{"": true}
	for {
		raw, can, err := c.page(ctx, cursor)
		if err != nil {
			return l, err
		}
		l.Tasks = can.tasks
		var page struct {
			Tools      []rawTool `json:"tools"`
			NextCursor string    `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return l, core.Permanent(fmt.Errorf("mcp: %s: the list of tools is not one: %w", c.name, err))
		}
		for i := range page.Tools {
			if t := &page.Tools[i]; c.options.Only == nil || slices.Contains(c.options.Only, t.Name) {
				listed := c.listed(t)
				listed.Idempotent = listed.Idempotent || can.keys && c.options.Trust == TrustHints
				l.Tools = append(l.Tools, listed)
			}
		}
		switch cursor = page.NextCursor; {
		case cursor == "":
			err := c.checkList(&l)
			return l, err
		case seen[cursor] || len(l.Tools) > maxTools || len(seen) > maxTools:
			return l, core.Permanent(fmt.Errorf("mcp: %s: the list of tools has no end: a page has been sent twice, or there are more than %d tools", c.name, maxTools))
		}
		seen[cursor] = true
	}
}

// page returns a page of the list, and what the server can do.
func (c *Client) page(ctx context.Context, cursor string) (raw json.RawMessage, can abilities, err error) {
	var used *session
	raw, err = c.request(ctx, "", func(ctx context.Context, s *session, token string) error {
		used, can = s, abilitiesOf(s.client.InitializeResult())
		_, err := s.client.ListTools(ctx, &sdk.ListToolsParams{Meta: sdk.Meta{"progressToken": token}, Cursor: cursor})
		return err
	})
	switch {
	case err != nil:
		return nil, can, err
	case raw != nil:
		used.pages.Store(cursor, raw)
		return raw, can, nil
	}
	kept, _ := used.pages.Load(cursor) // the SDK had it, as the server allows
	raw, _ = kept.(json.RawMessage)
	return raw, can, nil
}

func (c *Client) listed(t *rawTool) Listed {
	l := Listed{
		Name: toolName(c.name, t.Name), ServerName: t.Name, Description: t.Description, Schema: string(objectSchema(t.InputSchema)),
		ReadOnly: t.Annotations.ReadOnly, Destructive: t.Annotations.Destructive == nil || *t.Annotations.Destructive, Idempotent: t.Annotations.Idempotent,
	}
	if l.ReadOnly {
		l.Destructive = false
	}
	if c.options.Trust == TrustNothing {
		l.ReadOnly, l.Destructive, l.Idempotent = false, true, false
	}
	if t.Execution.TaskSupport == "required" {
		l.LeftOut = "it requires a task of the protocol 2025-11-25, which has another form today"
	} else if _, err := actors.ParseSchema([]byte(l.Schema)); err != nil && c.options.OnSchema != SchemaUnchecked {
		l.LeftOut = err.Error()
	}
	return l
}

// checkList refuses names that repeat, and logs what is left out.
func (c *Client) checkList(l *listing) error {
	var problems []error
	count := make(map[string]int)
	for i := range l.Tools {
		t := &l.Tools[i]
		if count[t.ServerName]++; count[t.ServerName] == 2 {
			problems = append(problems, fmt.Errorf("mcp: %s lists two tools of the name %q", c.name, record.Truncate(t.ServerName, 80)))
		}
		if t.ServerName == "" {
			problems = append(problems, fmt.Errorf("mcp: %s: tool %d has no name", c.name, i+1))
		}
		if t.LeftOut == "" {
			continue
		}
		if c.options.OnSchema == SchemaFail {
			problems = append(problems, fmt.Errorf("mcp: %s: tool %q: %s", c.name, record.Truncate(t.ServerName, 80), t.LeftOut))
		}
		if c.options.Log != nil {
			c.options.Log.Warn("a tool is left out", "server", c.name, "tool", t.ServerName, "reason", t.LeftOut)
		}
	}
	return core.Permanent(errors.Join(problems...))
}

// objectSchema returns a schema whose root says that it is that of an object, as arguments are,
// if it does not say anything else.
func objectSchema(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || string(raw) == "true" {
		return json.RawMessage(`{"type":"object"}`)
	}
	var root map[string]json.RawMessage
	if json.Unmarshal(raw, &root) != nil {
		return raw
	}
	for _, key := range []string{"type", "anyOf", "oneOf", "allOf", "$ref"} {
		if _, ok := root[key]; ok {
			return raw
		}
	}
	if len(root) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return slices.Concat([]byte(`{"type":"object",`), bytes.TrimSpace(raw[1:]))
}

// toolName returns the name of a tool for models: that of the client, an underscore and that of
// the server, if models take it. Otherwise that is cut, and ends in a hash of both. It depends
// on nothing else: it is in the addresses of recorded calls.
func toolName(client, tool string) string {
	name := client + "_" + tool
	if actors.CheckFunctionName(name) == nil {
		return name
	}
	plain := []byte(name)
	for i, b := range plain {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' {
			plain[i] = '_'
		}
	}
	sum := sha256.Sum256([]byte(client + "\x00" + tool))
	return string(plain[:min(len(plain), 64-9)]) + "_" + hex.EncodeToString(sum[:4])
}
