package printer

import "golang.org/x/sys/windows"

// enableSequences enables control sequences on the console and reports whether it
// succeeded.
func enableSequences(fd uintptr) bool {
	console := windows.Handle(fd)
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	const wanted = windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	return mode&wanted == wanted || windows.SetConsoleMode(console, mode|wanted) == nil
}
