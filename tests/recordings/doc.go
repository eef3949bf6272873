// Package recordings plays the replies that other libraries have recorded for their own
// tests to package openai, and compares what it reads with what the replies say. The
// recordings are taken from the modules of those libraries and are not copied. It is a
// module of its own so that they are no dependencies of Reprise. Packages of npm have no
// recorded replies: their publishers leave the fixtures of their tests out.
package recordings
