// Package fulldisk tests that a run whose disk becomes full continues when there is
// space again. It uses limits of the operating system.
package fulldisk
