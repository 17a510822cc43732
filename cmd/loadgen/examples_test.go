package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// examples are those of the help: what stands between "loadgen run" and the explanation.
func examples(t *testing.T) (all [][]string) {
	t.Helper()
	_, tail, found := strings.Cut(runUsage(), "\nExamples:\n")
	require.True(t, found)
	tail, _, _ = strings.Cut(tail, "\n\n")
	for line := range strings.Lines(tail) {
		line, isExample := strings.CutPrefix(strings.TrimRight(line, "\n"), "  loadgen run")
		if !isExample {
			require.Regexp(t, `^ {20}`, line, "an explanation")
			continue
		}
		command, _, _ := strings.Cut(line, "  ") // and an explanation
		all = append(all, strings.Fields(command))
	}
	return all
}

// inDocuments are the commands that the README and docs/ show on lines of their own, but those of the help.
func inDocuments(t *testing.T, known [][]string) (all [][]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			command, ok := strings.CutPrefix(line, "bin/loadgen run ")
			if !ok {
				continue
			}
			command, _, _ = strings.Cut(command, "#")
			args := strings.Fields(strings.TrimRight(command, "& \n"))
			if !slices.ContainsFunc(known, func(one []string) bool { return slices.Equal(one, args) }) {
				all = append(all, args)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// shorter are the flags that make an example of the help short. What a killed client had is free after its lease.
func shorter(args []string) []string {
	text := strings.Join(args, " ")
	short := []string{"--warmup", "50ms", "--json", "-"}
	add := func(flags ...string) { short = append(short, flags...) }
	switch {
	case strings.Contains(text, "--scenario semaphore") && strings.Contains(text, "client"):
		add("--duration", "4s", "--hold", "1ms")
	case strings.Contains(text, "--chaos client"):
		add("--duration", "4s", "--lease", "2s", "--hold", "1ms")
	case strings.Contains(text, "--chaos kill"):
		add("--duration", "2s")
	case strings.Contains(text, "--chaos failover"):
		add("--duration", "2s", "--lease", "3s")
	default:
		add("--duration", "300ms")
	}
	if strings.Contains(text, "--chaos") {
		add("--chaos-every", "100ms")
	}
	if strings.Contains(text, "--locks") {
		add("--locks", "2000")
	}
	if strings.Contains(text, "--rate") {
		add("--rate", "2000")
	}
	if strings.Contains(text, "--yardstick") || strings.Contains(text, "--mutex") {
		add("--rounds", "1")
	}
	return short
}

// Each example of the help, and each command of the documents, ends well, shortened, with servers of the test in the place of
// those it names.
func TestTheExamplesOfTheHelp(t *testing.T) {
	needServer(t)
	t.Parallel()
	const secret = "canary-dragon-42"
	ours := redistest.NewAuthority(t)
	s, secure := ours.Server(ours.Sign("server", "redis.example"), "--tls-auth-clients", "no")
	s.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
	plain := redistest.Run(t, redistest.Options{})
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte(secret), 0o600))
	g := redistest.RunSentinel(t, 1, 3)
	all := examples(t)
	require.Greater(t, len(all), 20)
	all = append(all, inDocuments(t, all)...)
	for i, args := range all {
		t.Run(fmt.Sprint(i+1, " ", strings.Join(args, " ")), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			known := strings.NewReplacer(
				"localhost:6379", plain.Addr(), "rediss://redis.example:6379", "rediss://"+secure, "/run/secrets/redis", password,
				"/etc/ssl/redis-ca.pem", ours.File, "sentinel.example:26379", g.Addrs()[0], "mymaster", "holdfast",
				"/tmp/w", filepath.Join(dir, "witness"), ":6060", ":0", "cpu.out", filepath.Join(dir, "cpu.out"),
			)
			ours := slices.Clone(args)
			for i := range ours {
				ours[i] = known.Replace(ours[i])
			}
			if strings.Contains(strings.Join(args, " "), "rediss://") {
				ours = append(ours, "--tls-server-name", "redis.example")
			}
			ours = append(append([]string{"run"}, ours...), shorter(args)...)
			if i := slices.Index(ours, "--witness-procs"); i >= 0 {
				requireCompany(t, ours, ours[i+1])
				return
			}
			status, stdout, stderr := invoke(t, ours...)
			require.Equal(t, report.StatusOK, status, stderr+stdout)
			requireReport(t, []byte(stdout))
		})
	}
}

// requireCompany runs so many processes of the same example at once.
func requireCompany(t *testing.T, args []string, processes string) {
	t.Helper()
	require.Regexp(t, regexp.MustCompile(`^\d$`), processes)
	all := make([]*exec.Cmd, processes[0]-'0')
	for i := range all {
		all[i] = exec.Command(os.Args[0])
		all[i].Env = append(os.Environ(), childEnv+"="+strings.Join(args, " "))
		require.NoError(t, all[i].Start())
	}
	for _, one := range all {
		require.NoError(t, one.Wait(), "%s", one)
	}
}
