package mcp_test

// programMain is a process that the tests kill.
func programMain(string) {}
