package jetstream_test

import (
	"strings"
	"testing"

	kit "github.com/reprise-go/reprise/internal/testkit/campaign"
)

// A proxy is a proxy between clients and a server on loopback, with URLs instead of
// addresses.
type proxy struct{ *kit.Proxy }

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	return &proxy{kit.NewProxy(t, strings.TrimPrefix(url, "nats://"))}
}

func (p *proxy) url() string { return "nats://" + p.Addr() }
