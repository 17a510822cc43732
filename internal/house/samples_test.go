package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// closesWithCtx is how a sample should not close an engine: the ctx of a program has mostly ended by then, and that of a
// server's Shutdown may be used up.
var closesWithCtx = regexp.MustCompile(`\.Close\(ctx\)|Shutdown\((\w+)\), \w+\.Close\(`)

// Whoever copies a sample closes as it does: with a context of its own.
func TestSamplesCloseWithAContextOfTheirOwn(t *testing.T) {
	root := filepath.Join("..", "..")
	looked := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		sample := strings.HasSuffix(name, ".md") || name == "doc.go" || strings.HasSuffix(name, "example_test.go") ||
			strings.HasSuffix(name, ".go") && strings.Contains(filepath.ToSlash(path), "/examples/")
		if err != nil || d.IsDir() || !sample {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		looked += strings.Count(string(text), ".Close(context.Background())")
		require.NotRegexp(t, closesWithCtx, string(text), path)
		return nil
	}))
	require.Greater(t, looked, 3, "samples are found")
}
