// Package cache keeps outputs of calls for later ones, over runs, in memory or in
// a directory.
//
//	answers := cache.New(cache.NewMemory(64<<20), cache.Options{})
//	lookUp := decorators.Tool("look_up", "", f, actors.WithCache(answers, "1", time.Hour))
//
// It makes no call twice at the same time within a process. See core.Caching for
// what makes two calls the same, and for what a hit is.
package cache
