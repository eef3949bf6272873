// Package httpserver ends HTTP servers.
package httpserver

import (
	"context"
	"errors"
	"net/http"
)

// Shutdown ends a server. Requests that have not ended when ctx ends are cut off. This is not an
// error: it happens if a client does not read, or has not sent its request yet.
func Shutdown(ctx context.Context, server *http.Server) error {
	err := server.Shutdown(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return server.Close()
	}
	return err
}
