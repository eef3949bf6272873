// Package browser tests the dashboard page in Chromium. It is a separate module, so that no other
// package depends on the library that drives the browser.
//
// The tests are skipped if there is no Chromium. Set CHROMIUM to use a Chromium that is not on the
// PATH.
//
//	go test -run Screenshots -screenshots ./...
//
// retakes the screenshots in docs.
package browser
