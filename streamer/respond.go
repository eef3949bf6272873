package streamer

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer/internal/wire"
)

// errorBody is the value of the field "error" in the body of every refusal.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// refuse answers a request with an error.
func (h *Handler) refuse(w http.ResponseWriter, status int, code, message string) {
	h.counters.refused.Add(1)
	wire.RetryLater(w.Header(), status)
	if status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(mustJSON(map[string]errorBody{"error": {code, message}}), '\n'))
}

// refuseError answers a request with an error that was returned by a source or a control, or is due
// to a limit. missing is the text for ErrNotFound.
func (h *Handler) refuseError(w http.ResponseWriter, err error, missing string) {
	status, code, text := refusalOf(err, missing)
	h.refuse(w, status, code, text)
}

// refusalOf returns the status, code and text of the response for an error.
func refusalOf(err error, missing string) (status int, code, text string) {
	var limit *tooManyError
	switch {
	case errors.As(err, &limit):
		return limit.status, "too_many", limit.message
	case errors.Is(err, ErrNotFound):
		return http.StatusNotFound, "not_found", missing
	case errors.Is(err, ErrInvalid):
		return http.StatusBadRequest, "bad_request", strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
	case errors.Is(err, ErrTooMany):
		return http.StatusTooManyRequests, "too_many", strings.TrimPrefix(err.Error(), ErrTooMany.Error()+": ")
	case errors.Is(err, ErrUnavailable):
		return http.StatusServiceUnavailable, "unavailable", strings.TrimPrefix(err.Error(), ErrUnavailable.Error()+": ")
	case errors.Is(err, ErrConflict):
		return http.StatusConflict, "conflict", strings.TrimPrefix(err.Error(), ErrConflict.Error()+": ")
	}
	// The error's text may contain paths and host names.
	return http.StatusInternalServerError, "unreadable", "the runs cannot be read"
}

// noRun returns the message for a run that does not exist.
func noRun(id string) string { return "there is no run " + strconv.Quote(record.Truncate(id, maxName)) }

// refuseMethod answers requests that no other handler serves.
func (h *Handler) refuseMethod(w http.ResponseWriter, req *http.Request) {
	methods := h.methodsOf(req)
	if len(methods) == 0 || slices.Contains(methods, req.Method) {
		h.refuse(w, http.StatusNotFound, "not_found", "there is nothing here; the dashboard is at the root")
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	h.refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", req.Method+" is not allowed here; want "+strings.Join(methods, " or "))
}

// methodsOf returns the methods that the request's path accepts.
func (h *Handler) methodsOf(req *http.Request) []string {
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost}
	return slices.DeleteFunc(methods, func(method string) bool {
		other := *req
		other.Method = method
		_, pattern := h.mux.Handler(&other)
		return pattern == "/" || pattern == ""
	})
}

func (h *Handler) sendJSON(w http.ResponseWriter, body any) { h.sendStatus(w, http.StatusOK, body) }

func (h *Handler) sendStatus(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(mustJSON(body), '\n'))
}

// mustJSON encodes values from this package. Encoding them should never fail.
func mustJSON(body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		return []byte(`{"error":{"code":"encoding","message":` + strconv.Quote(strings.ToValidUTF8(err.Error(), "?")) + `}}`)
	}
	return data
}

// pathBase returns the last element of a request's original path, before any prefix was stripped.
func pathBase(req *http.Request) string {
	path := req.RequestURI
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}
