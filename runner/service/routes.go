package service

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// addRoutes adds the program's routes to the service's routes.
func addRoutes(mux *http.ServeMux, routes map[string]http.Handler) error {
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		if err := checkRoute(pattern, routes[pattern]); err != nil {
			return err
		}
		if err := addRoute(mux, pattern, routes[pattern]); err != nil {
			return err
		}
	}
	return nil
}

// ownPaths are the first segments of the service's own paths.
var ownPaths = []string{"api", "debug", "healthz", "readyz", "metrics"}

func checkRoute(pattern string, handler http.Handler) error {
	if handler == nil {
		return fmt.Errorf("service: Routes: the handler of %q is nil", pattern)
	}
	method, path, hasMethod := strings.Cut(pattern, " ")
	if !hasMethod {
		path = method
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimLeft(path, " \t"), "/"), "/")
	if !strings.HasPrefix(strings.TrimLeft(path, " \t"), "/") || first == "" || slices.Contains(ownPaths, first) || strings.HasPrefix(first, "{") || rest == "" {
		return fmt.Errorf("service: Routes: %q; want a path of two segments or more that does not begin with /%s/ or a wildcard, such as POST /hooks/stripe", pattern, strings.Join(ownPaths, "/, /"))
	}
	return nil
}

// addRoute adds a route. If http.ServeMux rejects the pattern, addRoute returns the reason as an
// error.
func addRoute(mux *http.ServeMux, pattern string, handler http.Handler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("service: Routes: %v", r)
		}
	}()
	mux.Handle(pattern, handler)
	return nil
}
