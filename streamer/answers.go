package streamer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// answersBody is the body of a request that answers many questions with one value.
type answersBody struct {
	Questions []questionRef   `json:"questions"`
	Value     json.RawMessage `json:"value"`
	By        string          `json:"by,omitempty"`
}

// questionRef identifies a question of a run.
type questionRef struct {
	RunID    string `json:"run_id"`
	Question string `json:"question"` // the question's ID
}

// answerResult is the result for one answer.
type answerResult struct {
	questionRef

	Error string `json:"error,omitempty"` // empty if the answer was accepted
}

type answersResponse struct {
	Answers []answerResult `json:"answers"` // answers in the order of the request
}

const maxAnswers = 1000 // maximum number of answers in one request

// serveAnswers answers questions from several runs. Each answer is accepted or refused separately.
func (h *Handler) serveAnswers(w http.ResponseWriter, req *http.Request, scope *Access) {
	if h.options.Control == nil || !scope.Control {
		h.refuseControl(w)
		return
	}
	var body answersBody
	if !h.admitPost(w, req) || !h.readBody(w, req, &body) {
		return
	}
	if err := body.check(); err != nil {
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
		return
	}
	by, ok := h.admitName(w, scope, body.By)
	if !ok {
		return
	}
	response := answersResponse{Answers: []answerResult{}}
	for _, q := range body.Questions {
		if req.Context().Err() != nil {
			return // the client has disconnected
		}
		response.Answers = append(response.Answers, answerResult{q, h.answer(req, scope, q, by, body.Value)})
	}
	h.sendJSON(w, response)
}

func (b *answersBody) check() error {
	if len(b.Questions) == 0 || len(b.Value) == 0 {
		return fmt.Errorf(`questions and value are needed: {"questions": [{"run_id": "ticket-1", "question": "agent/refund?1"}], "value": true}`)
	}
	if len(b.Questions) > maxAnswers {
		return fmt.Errorf("the request has %d questions; want at most %d", len(b.Questions), maxAnswers)
	}
	seen := make(map[questionRef]bool)
	for i, q := range b.Questions {
		switch {
		case q.RunID == "" || q.Question == "":
			return fmt.Errorf("question %d needs a run_id and a question", i+1)
		case seen[q]:
			return fmt.Errorf("question %s of run %s is given twice", strconv.Quote(record.Truncate(q.Question, maxName)), strconv.Quote(record.Truncate(q.RunID, maxName)))
		}
		seen[q] = true
	}
	return nil
}

// answer returns the reason why an answer was refused, or "" if it was accepted.
func (h *Handler) answer(req *http.Request, scope *Access, q questionRef, by string, value json.RawMessage) string {
	_, err := h.find(req.Context(), q.RunID, scope)
	if err == nil {
		err = h.options.Control.Answer(req.Context(), q.RunID, q.Question, by, value)
	}
	if err == nil {
		return ""
	}
	_, _, text := refusalOf(err, "there is no such question")
	return strings.TrimSpace(text)
}
