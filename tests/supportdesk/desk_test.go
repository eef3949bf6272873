package supportdesk

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/state"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"desk": desk})
}

// The environment variables of the program, in addition to those that package service reads.
const (
	outsideVariable = "DESK_OUTSIDE" // URL of the bank, the model, the shop and the mail service
	secret          = "the shop and the desk know it"
)

type (
	// A Ticket arrives at the webhook that the shop calls.
	Ticket struct {
		ID       string `json:"id"`
		Customer string `json:"customer"`
		Text     string `json:"text"`
		Euros    int    `json:"euros"`
	}
	// A Triage is the model's classification of a ticket.
	Triage struct {
		Kind string `json:"kind" enum:"question,refund"`
	}
	// A Call is the value of the signal "called", which means that the customer has called.
	Call struct {
		Keeps bool   `json:"keeps"` // the customer keeps the goods
		Said  string `json:"said"`
	}
	// An Order is a request to look up an order in the shop.
	Order struct {
		Reference string `json:"reference"`
	}
	// A Refund is paid by the bank, once for each reference.
	Refund struct {
		Reference string `json:"reference"`
		Euros     int    `json:"euros"`
	}
	// A Letter is sent by the mail service.
	Letter struct {
		Reference string `json:"reference"`
		Text      string `json:"text"`
	}
	// An Outcome is the output of a ticket's run.
	Outcome struct {
		Kind     string `json:"kind"`
		Receipt  string `json:"receipt,omitempty"`
		Said     string `json:"said,omitempty"`
		Letter   string `json:"letter,omitempty"`
		Surveyed bool   `json:"surveyed,omitempty"` // by version 2
	}
)

var errKeeps = errors.New("the customer keeps it")

// desk is the main function of the program. The program is started through a link, whose target is
// the name of the build: desk-1 has version 1 of the ticket program, desk-2 has versions 1 and 2,
// and desk-bad has a different program as version 2.
func desk(...string) error {
	build, err := os.Readlink(os.Args[0])
	if err != nil {
		return err
	}
	d := &supportDesk{build: build, outside: os.Getenv(outsideVariable)}
	o := service.Options{
		Thread: "chat",
		Runner: runner.Options{Build: build, SweepEvery: 100 * time.Millisecond},
		Routes: map[string]http.Handler{"POST /hooks/tickets": http.HandlerFunc(d.hook)},
		Ready:  func(string) { fmt.Println("ready") },
	}
	service.MainWith(o, d.register)
	return nil
}

type supportDesk struct {
	build, outside string
	runner         *runner.Runner

	triage actors.Agent[Ticket, Triage]
	order  actors.Tool[Order, string]
	refund actors.Tool[Refund, string]
	survey actors.Tool[Order, bool]
}

// often is the retry configuration of calls to external services.
var often = actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: 5 * time.Millisecond, MaxDelay: 50 * time.Millisecond})

func (d *supportDesk) register(r *runner.Runner) error {
	d.runner = r
	d.triage = actors.NewTypedAgent[Ticket, Triage]("triage", actors.NewLLM("model", d.sort, often))
	d.order = decorators.Tool("order", "Looks an order up.", func(ctx context.Context, in Order) (string, error) {
		found, err := d.post(ctx, "orders", in)
		if err != nil {
			return "", err
		}
		return found, state.Put(ctx, "order", found, state.PutShown())
	}, often)
	d.refund = decorators.Tool("refund", "Pays a refund.", func(ctx context.Context, in Refund) (string, error) {
		return d.post(ctx, "payouts", in)
	}, often, actors.WithApproval()).Compensate(func(ctx context.Context, in Refund, _ string) error {
		_, err := d.post(ctx, "reversals", in)
		return err
	}).CompensateInDoubt(func(ctx context.Context, in Refund) error {
		_, err := d.post(ctx, "reversals", in)
		return err
	})
	d.survey = decorators.Tool("survey", "Asks how it was.", func(ctx context.Context, in Order) (bool, error) {
		_, err := d.post(ctx, "surveys", in)
		return err == nil, err
	}, often)
	send := decorators.Tool("send", "Sends a letter.", func(ctx context.Context, in Letter) (string, error) {
		return d.post(ctx, "letters", in)
	}, often)
	runner.Register(r, decorators.Agent("letter", "", func(ctx context.Context, in Letter) (string, error) {
		if in.Text == "" {
			return "", core.Permanent(errors.New("there is nothing to say"))
		}
		return send.Call(ctx, in)
	}))
	runner.Register(r, conversation.NewProgram(r.Store(), d.chat()))
	runner.Register(r, decorators.Agent("ticket", "", d.ticket), runner.WithVersion("1"), runner.WithCompensations(d.refund))
	if d.build != "desk-1" {
		runner.Register(r, decorators.Agent("ticket", "", d.ticket2), runner.WithVersion("2"), runner.WithCompensations(d.refund))
	}
	return nil
}

// ticket is version 1 of the ticket program.
func (d *supportDesk) ticket(ctx context.Context, in Ticket) (Outcome, error) {
	triage, err := d.triage.Call(ctx, in)
	if err != nil {
		return Outcome{}, err
	}
	if _, err := d.order.Call(ctx, Order{in.ID}); err != nil {
		return Outcome{}, err
	}
	if triage.Kind == "question" {
		return d.answer(ctx, Outcome{Kind: "answered"}, Letter{in.ID, "It is on its way."})
	}
	return d.payBack(ctx, in)
}

// ticket2 is version 2 of the ticket program: it asks the customer before paying.
func (d *supportDesk) ticket2(ctx context.Context, in Ticket) (Outcome, error) {
	triage, err := d.triage.Call(ctx, in)
	if err != nil {
		return Outcome{}, err
	}
	if d.build == "desk-bad" { // version 2 does not make this call here
		if _, err := d.survey.Call(ctx, Order{in.ID}); err != nil {
			return Outcome{}, err
		}
	}
	if _, err := d.order.Call(ctx, Order{in.ID}); err != nil {
		return Outcome{}, err
	}
	if triage.Kind == "question" {
		return d.answer(ctx, Outcome{Kind: "answered"}, Letter{in.ID, "It is on its way."})
	}
	surveyed, err := d.survey.Call(ctx, Order{in.ID})
	if err != nil {
		return Outcome{}, err
	}
	out, err := d.payBack(ctx, in)
	out.Surveyed = surveyed
	return out, err
}

// payBack pays if somebody approves it, and waits until the customer has called.
func (d *supportDesk) payBack(ctx context.Context, in Ticket) (Outcome, error) {
	receipt, err := d.refund.Call(ctx, Refund{in.ID, in.Euros})
	if errors.Is(err, actors.ErrNotApproved) {
		return d.answer(ctx, Outcome{Kind: "refused"}, Letter{in.ID, "We are sorry."})
	} else if err != nil {
		return Outcome{}, err
	}
	call, err := core.Receive[Call](ctx, "called")
	if err != nil {
		return Outcome{}, err
	}
	if call.Keeps {
		return Outcome{}, core.Permanent(errKeeps)
	}
	text := "It is paid: " + receipt
	if strings.Contains(in.Text, "without a letter") { // without a text, the letter fails
		text = ""
	}
	return d.answer(ctx, Outcome{Kind: "refunded", Receipt: receipt, Said: call.Said}, Letter{in.ID, text})
}

// answer sends the letter in a separate run.
func (d *supportDesk) answer(ctx context.Context, out Outcome, letter Letter) (Outcome, error) {
	number, err := runner.Call[string](ctx, "letter", letter)
	out.Letter = number
	return out, err
}

// chat returns the agent that answers in threads. Its model is a script.
func (d *supportDesk) chat() conversation.Agent {
	return actors.NewAgent("chat", actors.NewLLM("script", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		if _, err := d.post(ctx, "models", nil); err != nil {
			return actors.Response{}, err
		}
		asked, said := "", 0
		for _, m := range req.Messages {
			if m.Role == actors.RoleUser {
				asked, said = m.Text, said+1
			}
		}
		last, words := req.Messages[len(req.Messages)-1], strings.Fields(asked)
		switch isAsked := last.Role == actors.RoleUser; {
		case isAsked && words[0] == "refund":
			return calls("refund", fmt.Sprintf(`{"reference": %q, "euros": 7}`, words[1])), nil
		case isAsked:
			return calls("order", fmt.Sprintf(`{"reference": %q}`, words[1])), nil
		case words[len(words)-1] == "break":
			return actors.Response{}, core.Permanent(errors.New("the model refuses"))
		}
		return actors.Response{Message: actors.Assistant(fmt.Sprintf("%d: %s", said, last.Text))}, nil
	}, often), actors.WithTools(d.order, d.refund))
}

func calls(tool, arguments string) actors.Response {
	return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: tool, Arguments: arguments}}}}
}

// sort is the triage's model, a script whose first answer is wrong.
func (d *supportDesk) sort(ctx context.Context, req actors.Request) (actors.Response, error) {
	if _, err := d.post(ctx, "models", nil); err != nil {
		return actors.Response{}, err
	}
	var question string
	for _, m := range req.Messages {
		if m.Role == actors.RoleAssistant {
			kind := "question"
			if strings.Contains(question, "back") {
				kind = "refund"
			}
			return actors.Response{Message: actors.Assistant(fmt.Sprintf(`{"kind": %q}`, kind))}, nil
		}
		question += m.Text
	}
	return actors.Response{Message: actors.Assistant(`{"kind": "complaint"}`)}, nil
}

// post sends a request to an external service. The request contains the idempotency key of the
// call, so it can be repeated.
func (d *supportDesk) post(ctx context.Context, path string, body any) (string, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	key, err := core.IdempotencyKey(ctx)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.outside+"/"+path, bytes.NewReader(encoded))
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", core.Retryable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", core.Retryable(err)
	case resp.StatusCode == http.StatusServiceUnavailable:
		return "", core.Retryable(errors.New(resp.Status))
	case resp.StatusCode != http.StatusOK:
		return "", core.Permanent(fmt.Errorf("%s: %s", resp.Status, said))
	}
	return string(said), nil
}

// hook handles the webhook that the shop calls. It starts one run for each ticket.
func (d *supportDesk) hook(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if signature, err := hex.DecodeString(req.Header.Get("Signature")); err != nil || !hmac.Equal(signature, sign(body)) {
		http.Error(w, "the signature is not from the shop", http.StatusUnauthorized)
		return
	}
	var t Ticket
	if err := json.Unmarshal(body, &t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := d.runner.Start(req.Context(), "ticket", t.ID, t, runner.StartOptions{}); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func sign(body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}
