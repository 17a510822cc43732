package containers

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

var root = filepath.Join("..", "..")

// find lists the files of a name, but those that were built.
func find(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == "target"):
			return fs.SkipDir
		case d.Name() == name:
			found = append(found, path)
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// Each file is valid, what it builds is there, and who depends on a healthy service has one that says when it is.
func TestComposeFilesAreValid(t *testing.T) {
	files := find(t, "compose.yaml")
	require.GreaterOrEqual(t, len(files), 2)
	for _, file := range files {
		options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}), cli.WithConsistency(true))
		require.NoError(t, err, file)
		project, err := options.LoadProject(t.Context())
		require.NoError(t, err, file)
		require.NotEmpty(t, project.Services, file)
		for name, service := range project.Services {
			if service.Build == nil {
				require.NotEmpty(t, service.Image, "%s: %s", file, name)
			} else {
				path := filepath.Join(service.Build.Context, service.Build.Dockerfile)
				require.FileExists(t, path, "%s: %s", file, name)
			}
			for on, how := range service.DependsOn {
				require.Contains(t, project.Services, on, "%s: %s", file, name)
				if how.Condition == "service_healthy" {
					require.NotNil(t, project.Services[on].HealthCheck, "%s: %s depends on %s", file, name, on)
				}
			}
		}
	}
}

// A profile starts what it is for, and nothing that takes another server's port; and no server keeps its data.
func TestProfilesStartWhatTheyAreFor(t *testing.T) {
	for profile, want := range map[string][]string{
		"redis":    {"redis"},
		"loadgen":  {"loadgen", "redis"},
		"cluster":  {"cluster", "node1", "node2", "node3"},
		"sentinel": {"master", "replica", "sentinel1", "sentinel2", "sentinel3"},
	} {
		options, err := cli.NewProjectOptions([]string{filepath.Join(root, "compose.yaml")}, cli.WithProfiles([]string{profile}))
		require.NoError(t, err)
		project, err := options.LoadProject(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, want, project.ServiceNames(), profile)
		for name, service := range project.Services {
			if service.HealthCheck != nil {
				require.Contains(t, service.Tmpfs, "/data", name)
			}
		}
	}
}

// Each file is valid, does not run as root, and copies only what is there.
func TestDockerfilesAreValid(t *testing.T) {
	files := find(t, "Dockerfile")
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		tree, err := parser.Parse(f)
		require.NoError(t, f.Close())
		require.NoError(t, err, file)
		require.Empty(t, tree.Warnings, file)
		stages, _, err := instructions.Parse(tree.AST, nil)
		require.NoError(t, err, file)

		last := stages[len(stages)-1]
		user, entry := false, false
		for _, command := range last.Commands {
			switch c := command.(type) {
			case *instructions.UserCommand:
				user = user || c.User != "root" && c.User != "0"
			case *instructions.EntrypointCommand:
				entry = true
			}
		}
		require.True(t, user, "%s runs as root", file)
		require.True(t, entry, "%s has no entry point", file)
		for _, stage := range stages {
			for _, command := range stage.Commands {
				checkCopy(t, file, stages, command)
			}
		}
	}
}

// checkCopy looks for what a COPY wants: in the context, or as a stage.
func checkCopy(t *testing.T, file string, stages []instructions.Stage, command instructions.Command) {
	t.Helper()
	c, ok := command.(*instructions.CopyCommand)
	if !ok {
		return
	}
	if c.From != "" {
		named := slices.ContainsFunc(stages, func(s instructions.Stage) bool { return s.Name == c.From })
		require.True(t, named, "%s copies from %q", file, c.From)
		return
	}
	context := filepath.Dir(file)
	if file == filepath.Join(root, "examples", "gojava", "Dockerfile") {
		context = root // as its compose file says
	}
	for _, path := range c.SourcePaths {
		_, err := os.Stat(filepath.Join(context, path))
		require.NoError(t, err, file)
	}
}
