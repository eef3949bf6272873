// Package service serves a [runner.Runner] as a program: its agents are started, watched
// and answered over HTTP, with the dashboard of package streamer.
//
//	func main() {
//		service.Main(func(r *runner.Runner) error {
//			runner.Register(r, support)
//			return nil
//		})
//	}
//
// The program has the flags -dir, -addr, -limit, -grace and -h. On an interrupt or SIGTERM
// it ends after its runs; when it is started again, it continues the runs that have not
// ended.
//
// In addition to the paths of package streamer, /debug/vars has the metrics of the runner,
// as "reprise".
package service
