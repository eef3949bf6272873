// Package service serves the programs of a [runner.Runner] as package runner/service does. The runs
// are in a directory, or in a store on JetStream that many processes share:
//
//	func main() {
//		service.Main(func(r *runner.Runner) error {
//			runner.Register(r, support)
//			return nil
//		})
//	}
//
// The program's flag -store sets the URL of the servers, such as
// nats://a:4222,nats://b:4222?store=support&replicas=3. See [Open] for its parameters.
package service
