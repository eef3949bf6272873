package supportdesk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// of returns a number from the environment variable name, or def if the variable is not set.
func of(t *testing.T, name string, def int) int {
	if text := os.Getenv(name); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, name)
		return n
	}
	return def
}

// phases are the builds that are deployed while the desk is under load. In the first phase, the
// initial build is kept.
var phases = []string{"", "desk-2", "desk-1", "desk-2"}

// perThread is the number of turns of each customer in a phase: one turn that looks something up,
// one with a refund, and one that fails after a refund.
const perThread = 3

// TestKilledSupportDeskPaysOnceAndLosesNothing repeatedly kills the desk under load, each time
// after a different number of external effects, while version 2 is deployed, rolled back, and
// deployed again. Every ticket and every turn must end as planned, no refund may be paid twice, and
// refunds must be reversed as planned.
func TestKilledSupportDeskPaysOnceAndLosesNothing(t *testing.T) {
	tickets, kills := of(t, "REPRISE_TICKETS", 24), of(t, "REPRISE_KILLS", 4)
	customers := max(tickets/24, 1)
	o := newOutside(t)
	s := supervise(t, o)
	rng := rand.New(rand.NewPCG(1, uint64(tickets)))
	var working sync.WaitGroup
	for phase, build := range phases {
		if build != "" {
			s.deploy(build)
		}
		for n := phase * tickets / len(phases); n < (phase+1)*tickets/len(phases); n++ {
			working.Go(func() { assert.NoError(t, s.attend(t.Context(), ticketID(n), planOf(n)), ticketID(n)) })
		}
		if phase == 0 {
			for c := range customers {
				working.Go(func() { s.talk(t, c, perThread*len(phases)) })
			}
		}
		for range kills / len(phases) {
			// At most half of the effects in a phase, so that some are left after the
			// kill.
			for range 1 + rng.IntN(max(2*tickets/kills, 1)) {
				select {
				case <-o.effects:
				case <-t.Context().Done():
					return
				}
			}
			s.kill()
		}
	}
	working.Wait()
	for n := range tickets {
		result, err := s.client().Result(t.Context(), ticketID(n))
		require.NoError(t, err)
		s.check(t, ticketID(n), planOf(n), result)
	}
	for c := range customers {
		s.checkThread(t, c)
	}
	s.stop()
	killed := 0
	for _, code := range s.codes {
		if code == -1 {
			killed++
		} else {
			assert.Zero(t, code)
		}
	}
	assert.Equal(t, kills/len(phases)*len(phases), killed)
	s.checkRuns(t, tickets, customers)
}

func ticketID(n int) string { return fmt.Sprint("ticket-", n) }
func planOf(n int) *plan    { return &plans[n%len(plans)] }

// said returns the customer's text in a turn and the reference in that text. Turns are counted from
// 1.
func said(customer, turn int) (text, reference string) {
	reference = fmt.Sprintf("thread-%d-%d", customer, turn)
	switch turn % perThread {
	case 1:
		return "where " + reference, reference
	case 2:
		return "refund " + reference, reference
	}
	return "refund " + reference + " break", reference
}

func threadID(customer int) string { return fmt.Sprint("customer-", customer) }

// talk sends the texts of a customer's turns, one after the other.
func (s *supervisor) talk(t *testing.T, customer, turns int) {
	for n := 1; n <= turns; n++ {
		text, _ := said(customer, n)
		if _, err := s.chat(t.Context(), threadID(customer), text, n); !assert.NoError(t, err, "turn %d of %s", n, threadID(customer)) {
			return
		}
	}
}

// checkThread checks that a thread contains its turns in order, each with the right history, and
// that the refunds of failed turns were reversed.
func (s *supervisor) checkThread(t *testing.T, customer int) {
	t.Helper()
	turns, err := s.client().Thread(t.Context(), threadID(customer))
	require.NoError(t, err)
	require.Len(t, turns, perThread*len(phases))
	completed := 0
	for i, turn := range turns {
		text, reference := said(customer, i+1)
		euros, payouts, _, _, forbidden := s.outside.paid(reference)
		assert.Equal(t, text, turn.Text)
		assert.Empty(t, forbidden)
		switch {
		case strings.HasSuffix(text, "break"):
			assert.Equal(t, "failed", turn.Status)
			assert.Equal(t, []int{0, 1}, []int{euros, payouts}, "%s is paid and reversed", reference)
			continue
		case strings.HasPrefix(text, "refund"):
			assert.Equal(t, []int{7, 1}, []int{euros, payouts}, "%s is paid once", reference)
		default:
			assert.Zero(t, payouts)
		}
		completed++
		assert.Equal(t, "completed", turn.Status, turn.Error)
		assert.True(t, strings.HasPrefix(turn.Answer, fmt.Sprint(completed, ": ")), "%s: the history of turn %d has %d turns", turn.Answer, turn.Turn, completed-1)
	}
}

// checkRuns checks all runs: each must have ended and be readable, and no call may have been
// repeated after its outcome. Each program must have the expected number of runs.
func (s *supervisor) checkRuns(t *testing.T, tickets, customers int) {
	t.Helper()
	store, err := filestore.New(s.runs)
	require.NoError(t, err)
	defer func() { assert.NoError(t, store.Close()) }()
	programs, callers := make(map[string]int), make(map[string]int)
	lost, openings := 0, uint64(0)
	for info, err := range snapshot.Runs(t.Context(), store, snapshot.Filter{}) {
		require.NoError(t, err)
		switch info.Status {
		case snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled:
		default:
			assert.Fail(t, "a run has not ended", "%s is %s (%s)", info.RunID, info.Status, info.Stop.Reason)
		}
		programs[info.Program]++
		openings += info.Generation
		if by, ok := caller.Of(&info.Metadata); ok {
			callers[by.RunID]++
		}
		run, err := store.Load(t.Context(), info.RunID)
		require.NoError(t, err)
		outcomes := make(map[record.Address]bool)
		for rec, err := range run.Records() {
			require.NoError(t, err)
			if !rec.Kind.IsCall() {
				continue
			}
			assert.False(t, outcomes[rec.Address], "%s: record %d comes after the outcome of %s", info.RunID, rec.Seq, rec.Address)
			outcomes[rec.Address] = rec.IsOutcome()
			if rec.Reason == record.ReasonLost {
				lost++
			}
		}
	}
	letters := 0
	for n := range tickets {
		want := planOf(n).letters
		if strings.Contains(planOf(n).text, "without a letter") {
			want = 1 // for the run that failed
		}
		letters += want
		assert.Equal(t, want, callers[ticketID(n)], "%s: the number of runs that it has called", ticketID(n))
	}
	assert.Equal(t, map[string]int{"ticket": tickets, "letter": letters, "chat": customers * perThread * len(phases)}, programs)
	t.Logf("%d tickets, %d letters and %d turns, %d processes, %d of them killed: %d openings, %d calls were lost and made again",
		tickets, letters, programs["chat"], len(s.codes), s.serving-len(phases), openings, lost)
}
