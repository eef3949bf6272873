package streamer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A Share is the consumption of some of a run's calls.
type Share struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"` // calls that consumed something, each counted once
	record.Usage
}

// Consumption is the consumption of a run's calls. Each list begins with the most expensive share.
// Consumption is the body of /api/runs/{run}/usage.
type Consumption struct {
	Total   record.Usage `json:"total"`
	Calls   []Share      `json:"calls"`             // shares by the name of the call
	Models  []Share      `json:"models"`            // shares by the model that answered, or by the call's name if the model is not known
	Agents  []Share      `json:"agents"`            // shares by the innermost agent around the call; the name is empty for calls outside any agent
	Partial bool         `json:"partial,omitempty"` // some of the run's records could not be read
}

// recordUsage contains the fields of a record that are needed to count its consumption.
type recordUsage struct {
	Address  record.Address `json:"address"`
	Name     string         `json:"name"`
	Kind     record.Kind    `json:"event_type"`
	Seq      uint64         `json:"seq"`
	Usage    record.Usage   `json:"usage"`
	Metadata struct {
		Model string `json:"model"`
	} `json:"metadata"`
}

// consumption adds up the usage of records.
type consumption struct {
	total                    record.Usage
	agents                   map[string]string // names of agents, by address
	byCall, byModel, byAgent shares
	next                     uint64 // the expected number of the next record
	holes                    bool   // records are missing
}

// shares holds shares by name.
type shares map[string]*share

type share struct {
	usage record.Usage
	calls map[string]bool // addresses of the counted calls
}

func (s shares) add(name, address string, u record.Usage) {
	if s[name] == nil {
		s[name] = &share{calls: make(map[string]bool)}
	}
	s[name].usage = s[name].usage.Plus(u)
	s[name].calls[address] = true
}

func (s shares) list() []Share {
	list := []Share{}
	for name, of := range s {
		list = append(list, Share{name, len(of.calls), of.usage})
	}
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.TotalTokens(), a.TotalTokens()), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func (c *consumption) take(r *recordUsage) {
	c.holes = c.holes || r.Seq > c.next
	c.next = max(c.next, r.Seq+1)
	path := r.Address.String()
	if r.Kind == record.KindAgent {
		c.agents[path] = r.Name
	}
	if r.Usage == (record.Usage{}) {
		return
	}
	c.total = c.total.Plus(r.Usage)
	c.byCall.add(r.Name, path, r.Usage)
	if r.Kind == record.KindLLM {
		c.byModel.add(cmp.Or(r.Metadata.Model, r.Name), path, r.Usage)
	}
	c.byAgent.add(c.agentAround(path), path, r.Usage)
}

// agentAround returns the name of the innermost agent around a call.
func (c *consumption) agentAround(path string) string {
	for {
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return ""
		}
		path = path[:i]
		if at := strings.LastIndexByte(path, '@'); at > strings.LastIndexByte(path, '/') {
			path = path[:at] // remove the number of the attempt that made the call
		}
		if name, ok := c.agents[path]; ok {
			return name
		}
	}
}

// serveUsage sends the consumption of a run's calls. It reads all records of the run.
func (h *Handler) serveUsage(w http.ResponseWriter, req *http.Request, scope *Access) {
	id := req.PathValue("run")
	r, err := h.find(req.Context(), id, scope)
	if err == nil {
		var body Consumption
		if body, err = h.consumptionOf(req.Context(), r); err == nil {
			h.sendJSON(w, body)
			return
		}
	}
	h.refuseError(w, err, noRun(id))
}

func (h *Handler) consumptionOf(ctx context.Context, r *run) (Consumption, error) {
	c := consumption{agents: make(map[string]string), byCall: make(shares), byModel: make(shares), byAgent: make(shares), next: 1}
	err := h.consume(ctx, r, &c)
	return Consumption{Total: c.total, Calls: c.byCall.list(), Models: c.byModel.list(), Agents: c.byAgent.list(), Partial: c.holes}, err
}

// consume counts the run's records in the source. If the source does not have the run, it counts
// those in memory.
func (h *Handler) consume(ctx context.Context, r *run, c *consumption) error {
	if h.source != nil {
		for rec, err := range h.source.Records(ctx, r.id, 0) {
			if errors.Is(err, ErrNotFound) {
				break
			} else if err != nil {
				return err
			}
			of := recordUsage{Address: rec.Address, Name: rec.Name, Kind: rec.Kind, Seq: rec.Seq, Usage: rec.Used()}
			if d := rec.Detail; d != nil {
				of.Metadata.Model, _ = d.Metadata["model"].(string)
			}
			c.take(&of)
		}
		if c.next > 1 {
			return nil
		}
	}
	for _, e := range r.tape.all() {
		var of recordUsage
		if e.id.n > 0 && json.Unmarshal(e.frame.json(), &of) == nil {
			c.take(&of)
		}
	}
	return nil
}
