package main

import (
	"testing"

	"github.com/reprise-go/reprise/internal/testkit/process"
)

func TestMain(m *testing.M) {
	process.Main(m, process.Programs{"argyll": func(...string) error {
		main()
		return nil
	}})
}

func TestUnknownArgumentIsRefused(t *testing.T) { process.RefusesArguments(t, "argyll") }
