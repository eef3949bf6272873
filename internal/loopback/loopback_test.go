package loopback_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/internal/loopback"
)

func TestLoopbackAddressesAreRecognizedWithAndWithoutPort(t *testing.T) {
	for _, host := range []string{"localhost", "localhost:80", "127.0.0.1", "127.9.9.9:80", "::1", "[::1]", "[::1]:80", "[::ffff:127.0.0.1]:80"} {
		assert.True(t, loopback.Is(host), host)
	}
	for _, host := range []string{"", ":80", "0.0.0.0:80", "[::]:80", "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:80", "localhost.example", "127.0.0.1.example:80", "[]", "@"} {
		assert.False(t, loopback.Is(host), host)
	}
}

func TestForwardedRequestsAreRecognized(t *testing.T) {
	assert.False(t, loopback.IsForwarded(http.Header{"Host": {"a"}}))
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-IP", "via"} {
		header := http.Header{}
		header.Set(name, "192.0.2.1")
		assert.True(t, loopback.IsForwarded(header), name)
	}
}
