package house

import (
	"os"
	"os/exec"
	"path"
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
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(goMod(t, "."))
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

	// The other modules that go.mod of this one names stand in the list, and are not built. README says how many: the load
	// generator stays in this module, so that go run ./cmd/loadgen works in a clone and go install elsewhere.
	all := exec.Command("go", "list", "-mod=mod", "-m", "all")
	all.Dir, all.Env, all.Stderr = dir, list.Env, &said
	out, err = all.Output()
	require.NoError(t, err, said.String())
	require.LessOrEqual(t, strings.Count(string(out), "\n"), mostNamed+1, "%s", out) // and the program itself
}

// mostNamed is how many modules the list of a program with the engine names.
const mostNamed = 36

// archived are modules whose owners have stopped: nobody mends them any more.
var archived = []string{"github.com/mitchellh/", "github.com/pkg/errors", "github.com/golang/protobuf"}

// modules are the folders of this repository that have a go.mod, "." among them.
func modules(t *testing.T) (dirs []string) {
	t.Helper()
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		for _, file := range files {
			dir, err := filepath.Rel(root, filepath.Dir(file))
			require.NoError(t, err)
			dirs = append(dirs, filepath.ToSlash(dir))
		}
	}
	require.Greater(t, len(dirs), 8)
	return dirs
}

// goMod is the text of a module's go.mod.
func goMod(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(dir), "go.mod"))
	require.NoError(t, err)
	return string(text)
}

// What tools need is theirs: no program is built with it.
func TestNoModuleIsArchived(t *testing.T) {
	for _, dir := range modules(t) {
		for _, path := range archived {
			if strings.HasPrefix(dir, "tools") {
				continue
			}
			require.NotContains(t, goMod(t, dir), path, dir)
		}
	}
}

// A module that others require names a version of this one that there will be: what replaces it here, nobody else has.
func TestTheAdaptersRequireTheVersionThatComesNext(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	next := regexp.MustCompile(`(?m)^## (v\d+\.\d+\.\d+)`).FindStringSubmatch(string(text))
	require.NotNil(t, next)
	found := 0
	for _, dir := range modules(t) {
		if strings.HasPrefix(dir, "adapters/") {
			found++
			require.Regexp(t, `(?m)^\s`+regexp.QuoteMeta(module+" "+next[1])+"$", goMod(t, dir), dir)
		}
	}
	require.GreaterOrEqual(t, found, 3)
}

// Dependabot looks at every module, image and Java project that there is.
func TestDependabotLooksEverywhere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	require.NoError(t, err)
	looks := func(ecosystem string) []string {
		found := regexp.MustCompile(`package-ecosystem: ` + ecosystem + `\n\s+directories: \[(.*)\]`).FindStringSubmatch(string(text))
		require.NotNil(t, found, ecosystem)
		var dirs []string
		for _, dir := range strings.Split(found[1], ",") {
			dirs = append(dirs, strings.TrimPrefix(strings.Trim(strings.TrimSpace(dir), `"`), "/"))
		}
		return dirs
	}
	covered := func(dirs []string, dir string) bool {
		return slices.ContainsFunc(dirs, func(pattern string) bool {
			if pattern == "" {
				pattern = "."
			}
			match, err := path.Match(pattern, dir)
			require.NoError(t, err)
			return match
		})
	}
	for _, dir := range modules(t) {
		require.True(t, covered(looks("gomod"), dir), "dependabot.yml does not look at %s/go.mod", dir)
	}
	for name, ecosystem := range map[string]string{"Dockerfile": "docker", "pom.xml": "maven"} {
		found := 0
		for _, depth := range []string{"", "*/", "*/*/", "*/*/*/"} {
			files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(depth+name)))
			require.NoError(t, err)
			for _, file := range files {
				dir, err := filepath.Rel(root, filepath.Dir(file))
				require.NoError(t, err)
				found++
				require.True(t, covered(looks(ecosystem), filepath.ToSlash(dir)), "dependabot.yml does not look at %s/%s", dir, name)
			}
		}
		require.Positive(t, found, name)
	}
}
