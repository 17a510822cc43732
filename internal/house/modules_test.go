package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// needed are the modules that a program gets with the engine, all of them for what a lock does.
var needed = []string{
	"github.com/RussellLuo/timingwheel", "github.com/cespare/xxhash/v2", "github.com/google/uuid", "github.com/minio/highwayhash", "github.com/panjf2000/ants/v2", "github.com/redis/rueidis",
	"golang.org/x/sync", "golang.org/x/sys", module,
}

// A program that imports the engine alone is built without the libraries of the load generator and of the tests, and its
// go.mod names none of them.
func TestAProgramWithTheEngineHasTheModulesItNeedsAndNoOther(t *testing.T) {
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	goMod, err := os.ReadFile(filepath.Join(here, "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(string(goMod))
	sums, err := os.ReadFile(filepath.Join(here, "go.sum"))
	require.NoError(t, err)
	write("go.mod", "module example\n\n"+version+"\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+here+"\n")
	write("go.sum", string(sums))
	write("main.go", "package main\n\nimport _ \""+module+"/engine\"\n\nfunc main() {}\n")

	list := exec.Command("go", "list", "-mod=mod", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Dir = dir
	// What is built is downloaded, but of modules that others name their go.mod may not be.
	list.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var said strings.Builder // what it downloads, or what is wrong
	list.Stderr = &said
	out, err := list.Output()
	require.NoError(t, err, said.String())
	built := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	require.Subset(t, append(needed, "example"), built, "what is built")

	written, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	for _, line := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v`).FindAllStringSubmatch(string(written), -1) {
		require.Contains(t, needed, line[1], "what go.mod names")
	}
}

// archived are modules whose owners have stopped: nobody mends them any more.
var archived = []string{"github.com/mitchellh/", "github.com/pkg/errors", "github.com/golang/protobuf", "github.com/gorilla/"}

func TestNoModuleIsArchived(t *testing.T) {
	for _, file := range []string{"go.mod", "bench/go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for _, path := range archived {
			require.NotContains(t, string(text), path, file)
		}
	}
}
