package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"nothing":                      {nil, 2},
		"help":                         {[]string{"-h"}, 0},
		"a flag":                       {[]string{"-x"}, 2},
		"more than a URL":              {[]string{"http://127.0.0.1:1/mcp", "x"}, 2},
		"a program that fails":         {[]string{"sh", "-c", "exit 3"}, 3},
		"a program that ends":          {[]string{"sh", "-c", "exit 0"}, 0},
		"a file that is not a program": {[]string{"/nonexistent"}, 1},
	} {
		assert.Equal(t, c.want, run(c.args), name)
	}
}

// The flag tells the program that a client has started it.
func TestTheProgramGetsTheFlag(t *testing.T) {
	assert.Equal(t, 0, run([]string{"sh", "-c", `test "$*" = "-dir x -mcp"`, "sh", "-dir", "x"}))
}
