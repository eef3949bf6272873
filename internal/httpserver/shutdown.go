// Package httpserver ends HTTP servers.
package httpserver

import (
	"context"
	"errors"
	"net/http"
)

// Shutdown ends a server. Requests that have not ended when ctx ends are cut off, which is not an
// error: it happens to a client that does not read, or that has not sent its request yet.
func Shutdown(ctx context.Context, server *http.Server) error {
	err := server.Shutdown(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return server.Close()
	}
	return err
}
