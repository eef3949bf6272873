// Package breaker implements circuit breakers for actors. A breaker refuses attempts
// while the service that an actor calls is failing, and lets single attempts through
// later to find out whether the service has recovered. The package wraps
// github.com/sony/gobreaker; it tells a refused attempt how long to wait and records
// each change of state.
//
//	payments := breaker.New(breaker.Options{Name: "payments", OpenFor: 30 * time.Second})
//	pay := decorators.Tool("pay", "", call, actors.WithInterceptors(payments.Interceptor()))
//
// All actors that call a service should share its breaker, across all runs of a
// process.
package breaker
