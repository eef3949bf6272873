// Package recordings feeds package openai with replies that other libraries have recorded for their
// own tests, and compares the decoded results with these replies. The recordings are read from the
// modules of those libraries, and are not copied. The package is a separate module, so that those
// libraries are not dependencies of Reprise. Packages from npm contain no recorded replies, because
// their publishers leave out test fixtures.
package recordings
