package streamer

import (
	"net/http"
)

// AdmitFunc returns a handler that calls next for each request that Authorize admits, and passes it
// the sender's Access. It refuses requests from other sites' pages, except GET, HEAD and OPTIONS
// requests from pages of [Options.Origins]. It is for handlers that show runs in another form, such
// as those of packages agui and aisdk. Such a handler must itself check which runs the sender may
// see. Its writes fail if the client does not read: see [Options.WriteTimeout] and [Handler.Close].
func (h *Handler) AdmitFunc(next func(http.ResponseWriter, *http.Request, *Access)) http.Handler {
	return h.withAccess(func(w http.ResponseWriter, req *http.Request, scope *Access) {
		if h.admitOrigin(w, req) {
			next(w, req, scope)
		}
	})
}

// Sees reports whether the sender may see the run.
func (s *Access) Sees(runID string) bool { return s.sees(runID) }

// Enter counts a client toward the limits in [Options] until leave is called. It is for clients
// whose streams another handler serves. If a limit is reached, the error says which. The error is
// ErrTooMany for a limit of the sender, and ErrUnavailable for a limit of the server.
func (h *Handler) Enter(req *http.Request, scope *Access) (leave func(), err error) {
	return h.enter(scope.Principal, addressOf(req))
}
