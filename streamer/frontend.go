package streamer

import (
	"net/http"
)

// AdmitFunc returns a handler that calls next for the requests that Authorize admits, with
// what their senders may do. It is for handlers that show runs in another form, such as those
// of packages agui and aisdk, and that check themselves which runs the sender may see.
func (h *Handler) AdmitFunc(next func(http.ResponseWriter, *http.Request, *Access)) http.Handler {
	return h.withAccess(next)
}

// Sees reports whether the sender may see the run.
func (s *Access) Sees(runID string) bool { return s.sees(runID) }

// Enter counts a client whose stream another handler serves, within the limits of [Options],
// until leave is called. The error says which limit was reached.
func (h *Handler) Enter(req *http.Request, scope *Access) (leave func(), err error) {
	return h.enter(scope.Principal, addressOf(req))
}
