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

// A ListedTool is a tool in a server's list. A run records this value for each tool.
type ListedTool struct {
	Name        string `json:"name"`        // the name that models see
	ServerName  string `json:"server_name"` // the name that the server uses
	Description string `json:"description,omitempty"`
	Schema      string `json:"schema"` // the schema of the arguments, as received from the server

	ReadOnly    bool `json:"read_only,omitempty"`
	Destructive bool `json:"destructive,omitempty"` // true unless a trusted server declares the tool read-only or not destructive
	Idempotent  bool `json:"idempotent,omitempty"`

	LeftOut string `json:"left_out,omitempty"` // why the tool is hidden from models; empty if it is shown
}

// A listing is the recorded result of listing a server's tools.
type listing struct {
	Tools []ListedTool `json:"tools"`
	Tasks bool         `json:"tasks,omitempty"` // the server may answer a call with a task
}

// rawTool is a tool in the server's list.
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

// maxTools is the maximum number of tools that a server may list. Models support far fewer.
const maxTools = 10_000

// list asks the server for its tools. Listing the tools changes nothing, so the request may be
// repeated if the server does not respond in time.
func (c *Client) list(ctx context.Context) (listing, error) {
	limited, cancel := c.withTimeout(ctx)
	defer cancel()
	l, err := c.readList(limited)
	if errors.Is(err, ErrLost) && ctx.Err() == nil {
		err = core.Retryable(err)
	}
	return l, err
}

func (c *Client) readList(ctx context.Context) (listing, error) {
	var l listing
	cursor, seen := "", map[string]bool{"": true}
	for {
		raw, kept, can, err := c.page(ctx, cursor)
		if err != nil {
			return l, err
		}
		l.Tasks = can.tasks
		var page struct {
			Tools      []rawTool `json:"tools"`
			NextCursor string    `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return l, core.Permanent(fmt.Errorf("mcp: %s: the list of tools is invalid: %w", c.name, err))
		}
		for i := range page.Tools {
			if t := &page.Tools[i]; c.options.Only == nil || slices.Contains(c.options.Only, t.Name) {
				listed := c.listed(t)
				if listed.LeftOut == "" && kept != nil && !kept[t.Name] {
					listed.LeftOut = "its x-mcp-header is invalid"
				}
				listed.Idempotent = listed.Idempotent || can.keys && c.options.Trust == TrustHints
				l.Tools = append(l.Tools, listed)
			}
		}
		switch cursor = page.NextCursor; {
		case cursor == "":
			err := c.checkList(&l)
			return l, err
		case seen[cursor] || len(l.Tools) > maxTools || len(seen) > maxTools:
			return l, core.Permanent(fmt.Errorf("mcp: %s: the list of tools does not end: a page was sent twice, or there are more than %d tools", c.name, maxTools))
		}
		seen[cursor] = true
	}
}

// page returns a page of the list, the names of the tools that the SDK accepts (nil if the SDK
// could not read the page), and what the server supports.
func (c *Client) page(ctx context.Context, cursor string) (raw json.RawMessage, kept map[string]bool, can abilities, err error) {
	var used *session
	raw, err = c.request(ctx, "", func(ctx context.Context, s *session, token string) error {
		used, can = s, abilitiesOf(s.client.InitializeResult())
		result, err := s.client.ListTools(ctx, &sdk.ListToolsParams{Meta: sdk.Meta{"progressToken": token}, Cursor: cursor})
		if err != nil {
			return err
		}
		kept = make(map[string]bool)
		for _, t := range result.Tools {
			kept[t.Name] = true
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, can, err
	case raw != nil:
		used.pages.Store(cursor, raw)
		return raw, kept, can, nil
	}
	known, _ := used.pages.Load(cursor) // the SDK has answered from its cache, as the server allows
	raw, _ = known.(json.RawMessage)
	return raw, kept, can, nil
}

func (c *Client) listed(t *rawTool) ListedTool {
	l := ListedTool{
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
		l.LeftOut = "it requires a task as of protocol version 2025-11-25, which is not supported"
	} else if _, err := actors.ParseSchema([]byte(l.Schema)); err != nil && c.options.OnSchema != SchemaUnchecked {
		l.LeftOut = err.Error()
	}
	return l
}

// checkList rejects duplicate names and logs which tools are left out.
func (c *Client) checkList(l *listing) error {
	var problems []error
	count := make(map[string]int)
	for i := range l.Tools {
		t := &l.Tools[i]
		if count[t.ServerName]++; count[t.ServerName] == 2 {
			problems = append(problems, fmt.Errorf("mcp: %s lists two tools with the name %q", c.name, record.Truncate(t.ServerName, 80)))
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

// objectSchema adds "type": "object" to a schema whose root has no type, since arguments are always
// an object.
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

// toolName returns the name under which models see a tool: the client's name, an underscore and the
// server's name for the tool. If models would not accept this name, it is truncated and ends in a
// hash of both names. The name must not depend on anything else, because it is part of the
// addresses of recorded calls.
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
