package runcopy_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/runcopy"
)

func TestFlagsMayFollowTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		"-store s verify a b":    "s: verify a b",
		"verify -store s a b":    "s: verify a b",
		"verify a -store=s b":    "s: verify a b",
		"verify a b -store s":    "s: verify a b",
		"verify a":               ": verify a",
		"verify -- -a -store -b": ": verify -a -store -b",
		"-store s -- verify -a":  "s: verify -a",
		"gc -1h -store s":        "s: gc -1h",
	} {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		store := flags.String("store", "", "")
		words, err := runcopy.Parse(flags, strings.Fields(line))
		require.NoError(t, err, line)
		assert.Equal(t, want, *store+": "+strings.Join(words, " "), line)
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(&strings.Builder{})
	_, err := runcopy.Parse(flags, []string{"verify", "-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
	_, err = runcopy.Parse(flags, []string{"verify", "-fast"})
	require.ErrorContains(t, err, "-fast")
}
