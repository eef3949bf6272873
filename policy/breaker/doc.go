// Package breaker implements circuit breakers for actors. While the service that an actor calls is
// failing, a breaker refuses attempts. Later, it lets single attempts through to find out whether
// the service has recovered. The package wraps github.com/sony/gobreaker. It also tells a refused
// attempt how long to wait, and records each change of state.
//
//	payments := breaker.New(breaker.Options{Name: "payments", OpenFor: 30 * time.Second})
//	pay := decorators.Tool("pay", "", call, actors.WithInterceptors(payments.Interceptor()))
//
// All actors in a process that call the same service should share one breaker for it, across all
// runs.
package breaker
