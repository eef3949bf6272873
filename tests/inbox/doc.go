// Package inbox posts messages to open runs from other processes, and kills
// the processes meanwhile.
package inbox
