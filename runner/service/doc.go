// Package service makes a program of a [runner.Runner]: agents that are started,
// watched and answered over HTTP, with the dashboard of package streamer.
//
//	func main() {
//		service.Main(func(r *runner.Runner) error {
//			runner.Register(r, support)
//			return nil
//		})
//	}
//
// The program has the flags -dir, -addr, -limit, -grace and -h. It ends with an
// interrupt or SIGTERM, after its runs; started again, it goes on with all that
// has not ended.
//
// Beside what package streamer serves, there is /debug/vars with the numbers of
// the runner, as "reprise".
package service
