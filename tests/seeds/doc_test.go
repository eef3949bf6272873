package seeds

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All tests and test files that the table names exist.
func TestTestsNamedByTheTableExist(t *testing.T) {
	table, err := os.ReadFile("../../docs/seeds.md")
	require.NoError(t, err)
	var sources strings.Builder
	for _, dir := range []string{".", "../../actors", "../../config/condition", "../../config", "../../runner"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			sources.Write(source)
			return err
		}))
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(table), -1)
	require.Greater(t, len(names), 50)
	for _, name := range names {
		assert.Contains(t, sources.String(), "func "+name[1]+"(")
	}
	files := regexp.MustCompile("`([a-z/]+_test\\.go)`").FindAllStringSubmatch(string(table), -1)
	require.Greater(t, len(files), 5)
	for _, file := range files {
		_, err := os.Stat("../../" + file[1])
		assert.NoError(t, err)
	}
}
