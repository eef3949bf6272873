// Package loopback recognizes requests from this machine.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
)

// Is reports whether a host, with or without a port, is "localhost" or a loopback address.
func Is(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(trimBrackets(host))
	return err == nil && ip.Unmap().IsLoopback()
}

func trimBrackets(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// IsForwarded reports whether a header indicates that a proxy forwarded the request, so that anybody
// may have sent it. A proxy that sets no such header cannot be told from a client on this machine.
func IsForwarded(header http.Header) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if len(header[name]) > 0 {
			return true
		}
	}
	return false
}
