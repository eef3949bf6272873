// Package engine decides what a call does next, from its records and its rules and
// from nothing else. Package core carries that out.
package engine
