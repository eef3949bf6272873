// Package process runs functions of a test binary as processes of their own,
// which tests talk to, stop and kill.
//
// A package gives its programs to [Main] in its TestMain. [Command] then is the
// test binary itself, called to run one of them:
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
// Only tests may import it.
package process
