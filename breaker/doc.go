// Package breaker has circuit breakers for actors: they refuse attempts while what
// an actor calls is failing, and let single ones through later to find out whether
// it still is. They wrap those of github.com/sony/gobreaker, and add what a call
// needs: how long a refused attempt has to wait, and a record of each change.
//
//	payments := breaker.New(breaker.Options{Name: "payments", OpenFor: 30 * time.Second})
//	pay := decorators.Tool("pay", "", call, actors.WithBreaker(payments))
//
// A breaker is for all actors that call one service, and for all runs of a
// process.
package breaker
