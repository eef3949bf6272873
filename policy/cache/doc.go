// Package cache reuses the outputs of calls for later calls, across runs. Outputs are
// stored in memory or in a directory.
//
//	answers := cache.New(cache.NewMemory(64<<20), cache.Options{})
//	lookUp := decorators.Tool("look_up", "", f, actors.WithCache(answers, "1", time.Hour))
//
// Within a process, identical calls that run concurrently are made only once.
// [Cache.Interceptor] documents when two calls are the same and what happens on a hit.
package cache
