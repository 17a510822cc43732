package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

// The last line that a shell's script reads says what to do with the values, in bits: 2 adds no blank after a value, 4
// offers no names of files where there is none.
const (
	files     = ":0"
	noFiles   = ":4"
	listSoFar = ":6"
	noValue   = "no-value"
)

// complete is what the scripts of the shells ask for.
func complete(t *testing.T, args ...string) (values []string, directive string) {
	t.Helper()
	status, stdout, stderr := invoke(t, append([]string{"__completeNoDesc"}, args...)...)
	require.Equal(t, report.StatusOK, status, stderr+stdout)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

func TestEveryScenarioCompletes(t *testing.T) {
	values, directive := complete(t, "run", "--scenario", "")
	require.Equal(t, scenario.Names(), values)
	require.Equal(t, noFiles, directive)
}

func TestValuesComplete(t *testing.T) {
	for _, tc := range []struct {
		args, directive, values string
	}{
		{"run|--scenario=", noFiles, strings.Join(scenario.Names(), " ")},
		{"run|-w|3|-s|", noFiles, strings.Join(scenario.Names(), " ")},
		{"run|--kind|", noFiles, "lock spin fenced fair read write"},
		{"run|--api|", noFiles, "async sync"},
		{"run|--check-server|", noFiles, "auto on off"},
		{"run|--chaos|", listSoFar, "slots pause kill-conn script-flush failover kill client"},
		{"run|--chaos|slots,pause,kill", listSoFar, "slots,pause,kill-conn slots,pause,kill"},
		{"run|--chaos|kill,client,f", listSoFar, "kill,client,failover"},
		{"run|--duration|", noFiles, ""},
		{"run|--addr|", noFiles, ""},
		{"run|--witness|", files, ""},
		{"run|--json|", files, ""},
		{"run|--password-file|", files, ""},
		{"run|--tls-ca|", files, ""},
		{"run|--cpuprofile|", files, ""},
		{"run|", noFiles, ""},
		{"run|--vic", noFiles, ""},
		{"run|--witness-p", noFiles, "--witness-procs"},
		{"help|r", noFiles, "run"},
		{"scripts|", noFiles, ""},
		{"version|", noFiles, ""},
		{"r", noFiles, "run"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			values, directive := complete(t, strings.Split(tc.args, "|")...)
			require.Equal(t, strings.Fields(tc.values), append([]string{}, values...))
			require.Equal(t, tc.directive, directive)
		})
	}
}

// What completion offers is what the check lets pass, and nothing else is let pass.
func TestWhatCompletesIsWhatIsTaken(t *testing.T) {
	for flag, values := range enumerations() {
		_, err := parseFlags([]string{"--" + flag, noValue})
		require.ErrorContains(t, err, strings.Join(values, ", "), flag)
		for _, value := range values {
			_, err := parseFlags([]string{"--" + flag, value})
			if err != nil { // another flag may be missing
				require.NotContains(t, err.Error(), "of "+strings.Join(values, ", "), "--%s %s", flag, value)
			}
		}
	}
}

func TestEachShellHasACompletionScript(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		status, stdout, stderr := invoke(t, "completion", shell)
		require.Equal(t, report.StatusOK, status, stderr+stdout)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "loadgen")
		require.Contains(t, stdout, "__complete")
	}
}
