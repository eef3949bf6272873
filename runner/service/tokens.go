package service

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/reprise-go/reprise/streamer"
)

// minToken is the minimum length of a token, in bytes. Shorter tokens could be guessed.
const minToken = 16

// Tokens reads a token file and returns a function for [streamer.Options.Authorize] that admits
// clients with these tokens. Each line consists of a principal, its token of at least 16 bytes, and
// the word control or read, separated by spaces. Empty lines and lines that begin with # are
// ignored:
//
//	ann   c29tZSBzZWNyZXQgb2YgYW5u   control
//	board dGhlIHNjcmVlbiBpbiB0aGUgaGFsbA read
//
// A client sends its token as "Authorization: Bearer", or as the password in HTTP Basic
// authentication, for which a browser prompts the user. The file is read once.
func Tokens(path string) (func(*http.Request) (streamer.Access, error), error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator of the service chooses the file
	if err != nil {
		return nil, fmt.Errorf("service: tokens: %w", err)
	}
	scopes, err := parseTokens(data)
	if err != nil {
		return nil, fmt.Errorf("service: tokens: %s: %w", path, err)
	}
	return func(req *http.Request) (streamer.Access, error) {
		// Tokens are looked up by their hashes, so that the time a lookup takes reveals nothing
		// about them.
		scope, ok := scopes[sha256.Sum256([]byte(tokenOf(req)))]
		if !ok {
			return streamer.Access{}, &streamer.ChallengeError{Challenge: `Basic realm="Reprise: a token as the password", charset="UTF-8"`}
		}
		return scope, nil
	}, nil
}

func parseTokens(data []byte) (map[[sha256.Size]byte]streamer.Access, error) {
	scopes := make(map[[sha256.Size]byte]streamer.Access)
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch {
		case len(fields) != 3 || fields[2] != "control" && fields[2] != "read":
			return nil, fmt.Errorf("line %d: want a principal, a token, and control or read", n)
		case len(fields[1]) < minToken:
			return nil, fmt.Errorf("line %d: the token of %s has %d bytes; want %d or more", n, fields[0], len(fields[1]), minToken)
		}
		key := sha256.Sum256([]byte(fields[1]))
		if other, taken := scopes[key]; taken {
			return nil, fmt.Errorf("line %d: %s and %s have the same token", n, other.Principal, fields[0])
		}
		scopes[key] = streamer.Access{Principal: fields[0], Control: fields[2] == "control"}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(scopes) == 0 {
		return nil, fmt.Errorf("the file contains no tokens; want one line for each, such as: ann c29tZSBzZWNyZXQgb2YgYW5u control")
	}
	return scopes, nil
}

// tokenOf returns the request's token, or an empty string if it has none.
func tokenOf(req *http.Request) string {
	if _, password, ok := req.BasicAuth(); ok {
		return password
	}
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func readPool(path string) (*x509.CertPool, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator of the service chooses the file
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return pool, nil
}
