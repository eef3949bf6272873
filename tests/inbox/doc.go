// Package inbox tells runs things from other processes while they are open,
// and kills the processes meanwhile.
package inbox
