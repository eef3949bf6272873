// Package inbox posts messages from other processes to open runs, and kills processes while it does
// so.
package inbox
