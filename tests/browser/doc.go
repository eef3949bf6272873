// Package browser holds the tests of the dashboard page in a real Chromium. It
// is a module of its own, so that nobody else gets what drives the browser.
//
// The tests are skipped where there is no Chromium. CHROMIUM names one that is
// not on the PATH.
//
//	go test -run Screenshots -screenshots ./...
//
// takes the pictures in docs anew.
package browser
