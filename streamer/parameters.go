package streamer

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/record"
)

// api serves requests from admitted senders. It refuses a request whose URL has a parameter other
// than the given ones.
func (h *Handler) api(next func(http.ResponseWriter, *http.Request, *Access), parameters ...string) http.Handler {
	return h.withAccess(func(w http.ResponseWriter, req *http.Request, scope *Access) {
		if _, err := parametersOf(req, parameters); err != nil {
			h.refuse(w, http.StatusBadRequest, "bad_request", err.Error())
			return
		}
		next(w, req, scope)
	})
}

// parametersOf returns the parameters in a request's URL. An unknown parameter is an error, because
// if it were ignored, a filter with a typo would select everything. A parameter that is given more
// than once is also an error, unless it is one of many.
func parametersOf(req *http.Request, known []string, many ...string) (url.Values, error) {
	values, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the URL's query: %w", err)
	}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, fmt.Errorf("there is no parameter %q; this path has no parameters", record.Truncate(name, 50))
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("there is no parameter %q; the parameters are %v", record.Truncate(name, 50), known)
		case len(all) > 1 && !slices.Contains(many, name):
			return nil, fmt.Errorf("%s is given %d times: want it once", name, len(all))
		case !utf8.ValidString(strings.Join(all, "")):
			return nil, fmt.Errorf("%s is %q: want UTF-8", name, record.Truncate(strings.Join(all, ", "), 50))
		}
	}
	return values, nil
}
