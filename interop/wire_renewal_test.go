package interop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

const renewalHeader = `# What Redisson's watchdog sends for the locks that are held.
#
# Redisson 4.7.0, Redis 7, lockWatchdogTimeout 3 s: it comes every second. Notation: as in wire-lock.txt.
`

// renewals are what is held in each case: "<thread> <kind> <name>", taken in this order.
var renewals = [][]string{
	{"A:1 lock x"},
	{"A:1 lock x", "A:1 lock x", "A:2 lock y", "A:1 fenced z"},
	{"A:1 fair x"},
	{"A:1 write x"},
	{"A:1 read x"},
	{"A:1 read x", "A:1 read x", "A:2 read x"},
	{"A:1 write x", "A:1 read x"},
}

func TestWireOfTheWatchdog(t *testing.T) {
	demand(t)
	cases := make([][]string, len(renewals))
	t.Run("renewals", func(t *testing.T) {
		for i, held := range renewals {
			t.Run(strings.Join(held, ", "), func(t *testing.T) {
				t.Parallel()
				cases[i] = renewalOf(t, held)
			})
		}
	})
	text := renewalHeader
	for _, lines := range cases {
		text += "\n" + strings.Join(lines, "\n") + "\n"
	}
	file := filepath.Join("testdata", "wire-renewal.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// renewalOf takes the locks and returns them and the scripts of one pass of the watchdog: one for readers and
// one for all others.
func renewalOf(t *testing.T, held []string) []string {
	t.Helper()
	s := redistest.Run(t, redistest.Options{})
	c := openJava(t, s.Addr(), "watchdogMs", "3000")
	threads := map[string]*javaThread{"A:1": c.thread(t, "1"), "A:2": c.thread(t, "2")}
	r := record(t, s, threads["A:1"].owner, "A:1", threads["A:2"].owner, "A:2")
	scripts := map[bool]string{} // of readers, of others
	want := map[bool]bool{}
	var lines []string
	for _, h := range held {
		f := strings.Fields(h)
		threads[f[0]].lock(f[1], f[2]).do(t, "lock")
		lines = append(lines, "## "+h)
		want[f[1] == "read"] = true
	}
	// A pass that began between two locks has fewer of them; the last one of each sort counts.
	testkit.Eventually(t, "the watchdog has run three times", func() bool {
		passes := map[bool]int{}
		for _, line := range r.seen(t) {
			if !strings.Contains(line, " ARGV 3000 ") || strings.Count(line, " A:") == 0 {
				continue
			}
			reads := strings.Contains(line, "{x}")
			scripts[reads], passes[reads] = line, passes[reads]+1
		}
		for reads := range want {
			if passes[reads] < 3+len(held) {
				return false
			}
		}
		return true
	})
	for _, reads := range []bool{false, true} {
		if want[reads] {
			lines = append(lines, inOrder(scripts[reads], reads))
		}
	}
	return lines
}

// inOrder sorts the fields of readers, which Redisson keeps in a hash table.
func inOrder(line string, reads bool) string {
	if head, fields, ok := strings.Cut(line, " A:"); ok && reads {
		sorted := strings.Split("A:"+fields, " ")
		slices.Sort(sorted)
		return head + " " + strings.Join(sorted, " ")
	}
	return line
}
