package twin

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// How long a random sequence is, and after how many actions the keys are compared.
const (
	sequenceLen = 300
	compareAt   = 25
	// aimedMost is how many sequences at most aim at what chance has not brought.
	aimedMost = 300
)

func fromEnv(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestDifferentialTwinAnswersAsTheServerDoes runs random sequences of calls on the twin and on a real server.
// HOLDFAST_OPS says how many calls, HOLDFAST_SEED with which to begin.
func TestDifferentialTwinAnswersAsTheServerDoes(t *testing.T) {
	server := redistest.Run(t, redistest.Options{})
	p := newPair(t, server)
	ops, seed := int(fromEnv("HOLDFAST_OPS", 60_000)), uint64(fromEnv("HOLDFAST_SEED", time.Now().UnixNano()%1e9))
	t.Logf("HOLDFAST_SEED=%d", seed)
	calls, codes := map[string]int{}, map[string]int{}
	seen := func(a action, answer Reply) {
		if a.script == "" {
			return
		}
		calls[a.script]++
		for _, code := range codesOf(a.script, answer) {
			codes[a.script+": "+code]++
		}
	}
	begun, done := time.Now(), 0
	play := func(g *generator) {
		actions := g.sequence(sequenceLen)
		if diff := p.play(t, g.start, actions, seen); diff != nil {
			report(t, p, seed, g.start, actions, diff)
		}
		done += len(actions)
		seed++
	}
	for done < ops {
		play(newGenerator(seed))
	}
	aimed := 0
	for ; ops >= 60_000 && aimed < aimedMost && len(missing(codes)) > 0; aimed++ {
		script, _, _ := strings.Cut(missing(codes)[0], ":")
		g := newGenerator(seed)
		g.aimAt(script)
		play(g)
	}
	took := time.Since(begun)
	t.Logf("%d calls in %v: %.0f a second; %d sequences aimed at rare answers", done, took.Round(time.Millisecond), float64(done)/took.Seconds(), aimed)
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		t.Logf("%8d %s", calls[name], name)
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		t.Logf("%8d %s", codes[code], code)
	}
	if ops < 60_000 {
		return // too few to have seen all
	}
	require.Empty(t, missing(codes), "never answered")
}

// report shrinks a sequence that ends in a difference to what is needed for one, and fails the test with it.
func report(t *testing.T, p *pair, seed uint64, micros int64, actions []action, diff *difference) {
	t.Helper()
	rest := slices.Clone(actions[:min(diff.at+1, len(actions))])
	p.every = 1
	differs := func(some []action) *difference { return p.play(t, micros, some, nil) }
	if again := differs(rest); again == nil {
		t.Fatalf("HOLDFAST_SEED=%d: action %d, %s: twin %s, server %s; but not once more", seed, diff.at, rest[len(rest)-1], diff.twin, diff.real)
	}
	for size := len(rest) / 2; size > 0; size /= 2 {
		for from := 0; from < len(rest); {
			fewer := slices.Delete(slices.Clone(rest), from, min(from+size, len(rest)))
			if again := differs(fewer); again != nil {
				rest, diff = fewer, again
			} else {
				from += size
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HOLDFAST_SEED=%d, at %d µs; what is needed of it:\n", seed, micros)
	p.start(t, micros)
	for _, a := range rest {
		answer, commands, at := p.onTwin(a)
		server := ""
		for i, c := range commands {
			if v, err := p.conn.Do(t.Context(), c...); i == at {
				server = shownReal(v, err)
			}
		}
		fmt.Fprintf(&b, "  %s\n      twin   %s\n      server %s\n", a, shown(answer), server)
	}
	t.Fatalf("%s  twin   %s\n  server %s", b.String(), diff.twin, diff.real)
}
