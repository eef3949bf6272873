// Package breaker has circuit breakers for actors: they refuse attempts while the service
// that an actor calls is failing, and later let single attempts through to find out
// whether it has recovered. They wrap the circuit breakers of github.com/sony/gobreaker,
// and add how long a refused attempt has to wait, and a record of each change.
//
//	payments := breaker.New(breaker.Options{Name: "payments", OpenFor: 30 * time.Second})
//	pay := decorators.Tool("pay", "", call, actors.WithBreaker(payments))
//
// All actors that call one service share a breaker, over all runs of a process.
package breaker
