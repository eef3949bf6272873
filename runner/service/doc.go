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
// The flag -h lists its flags. An environment variable such as REPRISE_MAX_QUEUED sets the flag
// -max-queued if that is not given. On an interrupt or SIGTERM the program reports that it is not
// ready, starts nothing more, and ends after its runs have stopped, with status 0. When it is
// started again, it continues the runs that have not ended.
//
// Threads are served to pages that speak AG-UI at /agui/{program}, and to those with useChat of
// the AI SDK at /chat/{program}: see packages agui and aisdk.
//
// In addition to the paths of package streamer there are /healthz and /readyz for probes,
// and /metrics and /debug/vars with the metrics of the runner, protected by the same Authorize.
package service
