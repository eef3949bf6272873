// Package service turns a [runner.Runner] into a program: the runner's agents are started, watched
// and answered over HTTP, with the dashboard of package streamer.
//
//	func main() {
//		service.Main(func(r *runner.Runner) error {
//			runner.Register(r, support)
//			return nil
//		})
//	}
//
// The flag -h lists the program's flags. A flag that is not given can be set by an environment
// variable, for example REPRISE_MAX_QUEUED for -max-queued. On an interrupt or SIGTERM, the program
// reports that it is not ready, starts nothing more, and exits with status 0 once its runs have
// stopped. When it is started again, it continues the runs that have not ended.
//
// Threads are served at /agui/{program} to pages that speak AG-UI, and at /chat/{program} to pages
// that use the AI SDK's useChat; see packages agui and aisdk.
//
// In addition to package streamer's paths, there are /healthz and /readyz for probes, and /metrics
// and /debug/vars for the runner's metrics. The metrics are protected by the same Authorize
// function as the dashboard.
package service
