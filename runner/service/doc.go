// Package service makes a program out of a [runner.Runner]: agents that are
// started, watched and answered over HTTP, with the dashboard of package streamer.
//
//	func main() {
//		service.Main(func(r *runner.Runner) error {
//			runner.Register(r, support)
//			return nil
//		})
//	}
//
// The program has the flags -dir, -addr, -limit, -grace and -h. An interrupt or
// SIGTERM ends it, after its runs have stopped; started again, it goes on with all
// runs that have not ended.
//
// In addition to what package streamer serves, /debug/vars has the numbers of the
// runner, as "reprise".
package service
