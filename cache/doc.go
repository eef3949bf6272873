// Package cache keeps the outputs of calls for later calls, over runs, in memory or in a
// directory.
//
//	answers := cache.New(cache.NewMemory(64<<20), cache.Options{})
//	lookUp := decorators.Tool("look_up", "", f, actors.WithCache(answers, "1", time.Hour))
//
// Within a process, concurrent calls that are the same are made once. See
// [Cache.Interceptor] for when two calls are the same, and what happens on a hit.
package cache
