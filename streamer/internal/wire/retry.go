package wire

import (
	"math/rand/v2"
	"net/http"
	"strconv"
)

// RetryLater sets the header of a response with the given status that says when to send the request
// again, and returns the status. For a status that is not temporary, it sets nothing.
func RetryLater(header http.Header, status int) int {
	switch status {
	case http.StatusTooManyRequests:
		header.Set("Retry-After", "5")
	case http.StatusServiceUnavailable: // the clients should not all return at the same time
		header.Set("Retry-After", strconv.Itoa(3+rand.IntN(5)))
	}
	return status
}
