// Package process runs functions of a test binary as separate processes. Tests can
// communicate with the processes, stop them and kill them.
//
// A package passes its programs to [Main] in its TestMain. [Command] then
// returns a command that starts the test binary to run one of the programs:
//
//	func TestMain(m *testing.M) {
//		process.Main(m, process.Programs{"serve": serve})
//	}
//
//	func TestKilledServiceContinues(t *testing.T) {
//		p := process.Start(t, process.Command(t, "serve", t.TempDir()))
//		p.Await("ready")
//		p.Kill()
//	}
//
// Only tests may import this package.
package process
