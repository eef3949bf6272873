// Package service serves the programs of a [runner.Runner] as package runner/service does,
// with runs in a directory or in a PostgreSQL database that many processes share:
//
//	func main() {
//		service.Main(func(r *runner.Runner) error {
//			runner.Register(r, support)
//			return nil
//		})
//	}
//
// Such a program has the flag -store, the URL of the database, such as postgres://app@db/app.
// The parameter schema of the URL is the schema of the store, which must have been migrated.
package service
