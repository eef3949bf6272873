package streamer

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAddressOfAClientIsItsHostOrNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:5000":                "192.0.2.7",
		"[::ffff:192.0.2.7]:5000":       "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:5000":   "2001:db8:1:2::/64",
		"[2001:db8:1:2::99]:5001":       "2001:db8:1:2::/64",
		"[2001:db8:1:3::99]:5001":       "2001:db8:1:3::/64",
		"[fe80::1%eth0]:5000":           "fe80::/64",
		"[::1]:5000":                    "::/64",
		"@":                             "@", // of a Unix socket
		"":                              "",
		"192.0.2.7":                     "192.0.2.7",
		"somebody.example.com:http-alt": "somebody.example.com:http-alt",
	} {
		assert.Equal(t, want, addressOf(&http.Request{RemoteAddr: remote}), remote)
	}
}
