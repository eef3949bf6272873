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
// The program's flag -store sets the URL of the database, such as postgres://app@db/app. The URL's
// parameter schema names the store's schema, which must have been migrated.
package service
