package supportdesk

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// outside simulates the external services: a bank with a ledger, a shop, a mail service, and the
// model service. One request in six fails, and half of these have been executed nevertheless.
type outside struct {
	server  *httptest.Server
	effects chan struct{} // one for each executed request

	mu       sync.Mutex
	rng      *rand.Rand
	approved map[string]bool // refunds, by reference
	ledger   map[string]*account
}

// An account contains the effects for a reference: that of a ticket, or of a refund in a thread.
type account struct {
	payouts   map[string]int // in euros, by idempotency key
	reversed  bool
	letters   map[string]bool // by idempotency key
	surveys   map[string]bool
	forbidden []string // effects that should not have happened
}

func newOutside(t *testing.T) *outside {
	o := &outside{
		effects: make(chan struct{}, 1<<20), rng: rand.New(rand.NewPCG(3, 7)),
		approved: make(map[string]bool), ledger: make(map[string]*account),
	}
	o.server = httptest.NewServer(o)
	t.Cleanup(o.server.Close)
	return o
}

func (o *outside) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var in struct {
		Reference string
		Euros     int
	}
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	luck := o.rng.IntN(12)
	if luck == 0 {
		o.mu.Unlock()
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	said, status := o.do(strings.TrimPrefix(req.URL.Path, "/"), in.Reference, in.Euros, req.Header.Get("Idempotency-Key"))
	o.mu.Unlock()
	o.effects <- struct{}{}
	if luck == 1 {
		http.Error(w, "the response was lost", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(status)
	fmt.Fprint(w, said)
}

// do executes a request. If a request is repeated with the same key, it has no further effect.
func (o *outside) do(what, reference string, euros int, key string) (said string, status int) {
	a := o.account(reference)
	switch what {
	case "payouts":
		if a.reversed && a.payouts[key] == 0 { // the request comes after the reversal
			return "the refund was reversed", http.StatusGone
		}
		if !o.approved[reference] {
			a.forbidden = append(a.forbidden, "paid without approval")
		}
		a.payouts[key] = euros
		return "receipt " + key[:8], http.StatusOK
	case "reversals":
		a.reversed = true
	case "letters":
		a.letters[key] = true
		return "letter " + key[:8], http.StatusOK
	case "surveys":
		a.surveys[key] = true
	}
	return "done", http.StatusOK
}

// account returns the account of a reference. o.mu must be held.
func (o *outside) account(reference string) *account {
	a := o.ledger[reference]
	if a == nil {
		a = &account{payouts: make(map[string]int), letters: make(map[string]bool), surveys: make(map[string]bool)}
		o.ledger[reference] = a
	}
	return a
}

func (o *outside) approve(reference string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.approved[reference] = true
}

// paid returns the effects for a reference: the euros that were paid and not reversed, the numbers
// of payouts, letters and surveys, and the forbidden effects.
func (o *outside) paid(reference string) (euros, payouts, letters, surveys int, forbidden []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.account(reference)
	for _, amount := range a.payouts {
		euros += amount
	}
	if a.reversed {
		euros = 0
	}
	return euros, len(a.payouts), len(a.letters), len(a.surveys), a.forbidden
}
