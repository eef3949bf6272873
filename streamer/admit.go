package streamer

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/reprise-go/reprise/internal/loopback"
)

// An Access specifies what the sender of a request is allowed to do. With the zero Access, the
// sender may see all runs but change none.
type Access struct {
	Principal string                  // who the sender is, for limits and for recording who interrupted or cancelled a run
	Runs      func(runID string) bool // reports whether the sender may see a run; nil means all runs
	Control   bool                    // the sender may start runs, and change the runs that it may see

	// TTL is how long an event stream lasts before it ends, so that the client reconnects with its
	// cursor and Authorize is called again. 0 means no limit. The streams of packages agui and
	// aisdk are cut off instead, because a stream that ended normally would look complete.
	TTL time.Duration
}

func (s *Access) sees(runID string) bool { return s.Runs == nil || s.Runs(runID) }

// A ChallengeError is an ErrUnauthenticated that also tells the client how to sign in.
type ChallengeError struct {
	Challenge string // the header WWW-Authenticate, such as `Basic realm="runs"`
}

// Error returns the text of ErrUnauthenticated.
func (e *ChallengeError) Error() string { return ErrUnauthenticated.Error() }

// Unwrap returns ErrUnauthenticated.
func (e *ChallengeError) Unwrap() error { return ErrUnauthenticated }

// ErrUnauthenticated is returned or wrapped by [Options.Authorize] for a request whose
// sender is not known.
var ErrUnauthenticated = errors.New("streamer: not authenticated")

var (
	errNotLocal  = errors.New("without Options.Authorize only requests from this machine, to a loopback address, are served")
	errForwarded = errors.New("a proxy forwarded this request, so anybody may have sent it: without Options.Authorize only requests from this machine itself are served")
)

// withAccess serves the requests that Authorize admits. It cuts off clients that do not read the
// response.
func (h *Handler) withAccess(next func(http.ResponseWriter, *http.Request, *Access)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w, end := h.timed(w)
		defer end()
		setSecurityHeaders(w.Header())
		h.allowOrigin(w, req)
		if h.isForeign(req) {
			h.refuse(w, http.StatusForbidden, "cross_origin", "requests from the pages of other sites are refused, unless their origin is listed in Options.Origins")
			return
		}
		select {
		case <-h.closing:
			h.refuse(w, http.StatusServiceUnavailable, "closed", "the server is shutting down")
			return
		default:
		}
		scope, err := h.authorize(req)
		switch {
		case err == nil:
			next(w, req, &scope)
		case errors.Is(err, ErrUnauthenticated):
			var how *ChallengeError
			if errors.As(err, &how) {
				w.Header().Set("WWW-Authenticate", how.Challenge)
			}
			message := "sign in first"
			if req.Header.Get("Authorization") != "" {
				message = "the token or password in the header Authorization is not valid"
			}
			h.refuse(w, http.StatusUnauthorized, "unauthenticated", message)
		case errors.Is(err, errNotLocal), errors.Is(err, errForwarded):
			h.refuse(w, http.StatusForbidden, "forbidden", err.Error())
		default:
			// The error may contain details that the client must not see.
			h.refuse(w, http.StatusForbidden, "forbidden", "you may not see this")
		}
	})
}

// Admit returns a handler for something served alongside h, such as metrics. It calls next if h
// would admit the request and the sender may see all runs.
func (h *Handler) Admit(next http.Handler) http.Handler {
	return h.withAccess(func(w http.ResponseWriter, req *http.Request, scope *Access) {
		if scope.Runs != nil {
			h.refuse(w, http.StatusForbidden, "forbidden", "you may not see this: it is for senders who may see all runs")
			return
		}
		next.ServeHTTP(w, req)
	})
}

// isForeign reports whether a browser sent the request on behalf of a page whose origin is neither
// the server's own nor listed in Options.Origins. Links to the dashboard may be followed from
// anywhere.
func (h *Handler) isForeign(req *http.Request) bool {
	navigates := req.Header.Get("Sec-Fetch-Mode") == "navigate" && req.Header.Get("Sec-Fetch-Dest") == "document"
	if navigates && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
		return false
	}
	strict := *req
	strict.Method = http.MethodPost // reads are checked as if they changed something
	return h.readers.Check(&strict) != nil
}

func (h *Handler) authorize(req *http.Request) (Access, error) {
	if h.options.Authorize != nil {
		return h.options.Authorize(req)
	}
	// The Host header is also checked. Otherwise, an attacker could point the name of another host
	// at this machine, and a page of that host could read what is served here.
	if !loopback.Is(req.RemoteAddr) || !loopback.Is(req.Host) {
		return Access{}, errNotLocal
	}
	if loopback.IsForwarded(req.Header) {
		return Access{}, errForwarded
	}
	return Access{Control: true}, nil
}

// setSecurityHeaders sets the security headers that every response has.
func setSecurityHeaders(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// checkOrigin checks an origin in Options.Origins.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
		return fmt.Errorf("streamer: Options.Origins has %q: want a scheme and a host, such as \"https://ops.example.com\"", origin)
	}
	return nil
}

// allowOrigin lets pages from another origin read responses if that origin is listed.
func (h *Handler) allowOrigin(w http.ResponseWriter, req *http.Request) {
	if len(h.options.Origins) == 0 {
		return
	}
	w.Header().Add("Vary", "Origin")
	if origin := req.Header.Get("Origin"); slices.Contains(h.options.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
}

// clients counts the clients with an open stream.
type clients struct {
	total       int
	byPrincipal map[string]int
	byAddress   map[string]int
}

func newClients() clients {
	return clients{byPrincipal: make(map[string]int), byAddress: make(map[string]int)}
}

// tooManyError reports which limit a client would exceed.
type tooManyError struct {
	status  int
	message string
}

func (e *tooManyError) Error() string { return e.message }

// Unwrap returns the error with the same status, for the handlers that call [Handler.Enter].
func (e *tooManyError) Unwrap() error {
	if e.status == http.StatusTooManyRequests {
		return ErrTooMany
	}
	return ErrUnavailable
}

// enter counts a new client. If the client would exceed a limit, enter returns an error instead.
// The caller must call leave when the client's stream ends.
func (h *Handler) enter(principal, address string) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, o := &h.clients, &h.options
	switch {
	case h.open.Err() != nil:
		return nil, &tooManyError{http.StatusServiceUnavailable, "the server is shutting down"}
	case c.total >= o.Clients:
		return nil, &tooManyError{http.StatusServiceUnavailable, "the server allows at most this many event streams: " + strconv.Itoa(o.Clients)}
	case principal != "" && c.byPrincipal[principal] >= o.ClientsPerPrincipal:
		return nil, &tooManyError{http.StatusTooManyRequests, "the server allows you at most this many event streams: " + strconv.Itoa(o.ClientsPerPrincipal)}
	case c.byAddress[address] >= o.ClientsPerAddress:
		return nil, &tooManyError{http.StatusTooManyRequests, "the server allows your address at most this many event streams: " + strconv.Itoa(o.ClientsPerAddress)}
	}
	c.total++
	c.byPrincipal[principal]++
	c.byAddress[address]++
	return func() { h.leave(principal, address) }, nil
}

func (h *Handler) leave(principal, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.clients
	c.total--
	countDown(c.byPrincipal, principal)
	countDown(c.byAddress, address)
	if h.open.Err() != nil && c.total == 0 {
		close(h.quiet)
	}
}

func countDown(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// addressOf returns a client's IP address without the port. For an IPv6 address, it
// returns the /64 network, because a client can use any address in that network.
func addressOf(req *http.Request) string {
	at, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return req.RemoteAddr
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.WithZone("").Prefix(64) // every IPv6 address has a prefix of this length
	return network.String()
}
