// Package inbox posts messages to open runs from other processes, and kills
// processes while this happens.
package inbox
