// Package recordings feeds package openai with replies that other libraries have recorded
// for their own tests, and compares the decoded results with the replies. The recordings
// are read from the modules of those libraries and are not copied. The package is a separate
// module, so that those libraries are not dependencies of Reprise. Packages of npm have no
// recorded replies: their publishers leave out the fixtures of their tests.
package recordings
