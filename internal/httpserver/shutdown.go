// Package httpserver shuts down HTTP servers.
package httpserver

import (
	"context"
	"errors"
	"net/http"
)

// Shutdown shuts down a server. It cuts off the requests that have not ended when ctx ends. This is
// not an error: it happens if a client does not read the response, or has not yet sent its request.
func Shutdown(ctx context.Context, server *http.Server) error {
	err := server.Shutdown(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return server.Close()
	}
	return err
}
