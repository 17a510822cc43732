package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// With -sim it is the simulation that has to notice. It runs on the same seeds for every mutant, from 1 on, until
// one of them breaks a rule that none of them breaks in the tree as it is.

// A trial is what the simulation has to say of a mutant.
type trial struct {
	seed  string // "": none
	rule  string
	after time.Duration
	seeds string // how many there was time for
	// Where the simulation was not asked: why, or what went wrong.
	beyond string
	failed error
}

func (t trial) found() bool { return t.rule != "" }

// simFailure is a line of the simulation's own: a seed, and the rule that it breaks.
var simFailure = regexp.MustCompile(`: seed (\d+): (.*)$`)

// simEnd is its last line.
var simEnd = regexp.MustCompile(`^sim: seeds (\d+),`)

// A jury runs the simulation on mutants.
type jury struct {
	*lab
	limit   time.Duration   // how long for each mutant
	table   bool            // as a table in Markdown
	healthy string          // the simulation of the tree as it is
	broken  map[string]bool // seeds that fail there
	known   map[string]int  // rules that are broken there, by how many seeds
	seeds   int             // of so many
}

// simulate lets the simulation look at every mutant, one after the other.
func (l *lab) simulate(ctx context.Context, out io.Writer, chosen []mutant, j *jury) error {
	j.lab = l
	begun := time.Now()
	if err := j.prepare(ctx, out); err != nil {
		return err
	}
	if j.table {
		say(out, "| mutant | what it breaks | found by seed | rule | seconds |\n|---|---|---|---|---|\n")
	}
	tried, missed := 0, 0
	for _, m := range chosen {
		t := trial{beyond: m.cannotBeSimulated()}
		if t.beyond == "" {
			tried, t = tried+1, j.hear(ctx, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !t.found() {
				missed++
			}
		}
		j.report(out, m, t)
	}
	say(out, "\n%d mutants, %d found, %d not found, %d not asked for, %.0f s\n", len(chosen), tried-missed, missed, len(chosen)-tried, time.Since(begun).Seconds())
	if missed > 0 {
		return fmt.Errorf("the simulation did not find %d of %d mutants", missed, tried)
	}
	return nil
}

// prepare leaves only the simulation's own files among the engine's tests, which saves most of the time that it takes
// to build them, and notes what it finds in the tree as it is.
func (j *jury) prepare(ctx context.Context, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(j.tree, "engine", "*_test.go"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), "sim_") {
			continue
		}
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	j.healthy, j.broken, j.known = filepath.Join(j.bin, "healthy.test"), map[string]bool{}, map[string]int{}
	if text, err := j.build(ctx, "engine", j.healthy); err != nil {
		return fmt.Errorf("the simulation does not compile as it is: %w\n%s", err, text)
	}
	t, err := j.run(ctx, session{j.healthy, "1", j.limit, j.note})
	if err != nil {
		return err
	}
	if t.rule != "" {
		return fmt.Errorf("the simulation does not run as it is: %s", t.rule)
	}
	if j.seeds, err = strconv.Atoi(t.seeds); err != nil || j.table {
		return err
	}
	say(out, "as it is: %s seeds in %v\n", t.seeds, j.limit)
	for rule, n := range j.known {
		say(out, "broken as it is, by %d: %s\n", n, rule)
	}
	return nil
}

// note learns what is broken as it is.
func (j *jury) note(seed, rule string) bool {
	j.broken[seed] = true
	j.known[rule]++
	return false
}

// proof is how many seeds have to break a rule, up to some seed, before that says anything of a mutant: one, but where
// the rule is broken in the tree as it is, clearly more than there.
func (j *jury) proof(seed, rule string) int {
	n, _ := strconv.Atoi(seed)
	if known := j.known[rule]; known > 0 {
		return 3 + 3*known*n/max(j.seeds, 1)
	}
	return 1
}

// hear builds a mutant and runs the simulation.
func (j *jury) hear(ctx context.Context, m mutant) (t trial) {
	binary := filepath.Join(j.bin, "mutant.test")
	m.edits, m.pkg = m.simulatedEdits(), "engine"
	if err := j.breed(ctx, m, binary); err != nil {
		return trial{failed: err}
	}
	defer func() { _ = os.Remove(binary) }()
	count, first := map[string]int{}, map[string]string{}
	t, err := j.run(ctx, session{binary, "1", j.limit, func(seed, rule string) bool {
		if j.failsAsItIs(ctx, seed) {
			return false
		}
		if count[rule]++; count[rule] == 1 {
			first[rule] = seed
		}
		return count[rule] >= j.proof(seed, rule)
	}})
	t.failed = err
	if first[t.rule] != "" {
		t.seed = first[t.rule]
	}
	return t
}

// failsAsItIs reports whether a seed fails in the tree as it is, where there was time for fewer seeds, maybe.
func (j *jury) failsAsItIs(ctx context.Context, seed string) bool {
	if n, _ := strconv.Atoi(seed); n > j.seeds && !j.broken[seed] {
		_, _ = j.run(ctx, session{j.healthy, seed, 0, func(seed, _ string) bool {
			j.broken[seed] = true
			return true
		}})
	}
	return j.broken[seed]
}

// A session is one run of the simulation's binary, one seed after the other: until the limit is over, or until a
// failure is enough.
type session struct {
	binary, seed string
	limit        time.Duration // 0: the one seed
	enough       func(seed, rule string) bool
}

func (j *jury) run(ctx context.Context, s session) (t trial, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, s.binary, "-test.run", "^TestSim$", "-test.v", "-test.timeout", (s.limit + 3*hangLimit).String(),
		"-sim.all", "-sim.seed", s.seed, "-sim.time", s.limit.String())
	cmd.Dir = filepath.Join(j.tree, "engine")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return t, err
	}
	cmd.Stderr = cmd.Stdout
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return t, err
	}
	var last strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		line, after := lines.Text(), time.Since(begun)
		if m := simFailure.FindStringSubmatch(line); len(m) > 2 && s.enough(m[1], ruleIn(m[2])) {
			stop()
			_ = cmd.Wait()
			return trial{seed: m[1], rule: ruleIn(m[2]), after: after}, nil
		}
		if m := simEnd.FindStringSubmatch(line); m != nil {
			t.seeds = m[1]
		}
		if crash := crashIn(line); crash != "" && t.rule == "" {
			t.rule, t.after = crash, time.Since(begun)
		}
		last.WriteString(line + "\n")
	}
	ended := cmd.Wait()
	if t.seeds == "" && t.rule == "" {
		return t, fmt.Errorf("the simulation did not run: %w\n%s", ended, last.String())
	}
	return t, nil
}

// ruleIn is what a failure says up to its details.
func ruleIn(text string) string {
	rule, _, _ := strings.Cut(text, ": ")
	return rule
}

// crashIn says how the binary itself has come to its end; "": the line says nothing of that.
func crashIn(line string) string {
	switch {
	case strings.HasPrefix(line, "panic: test timed out"):
		return "hangs"
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
		return line
	default:
		return ""
	}
}

// report says what was found.
func (j *jury) report(out io.Writer, m mutant, t trial) {
	seconds := fmt.Sprintf("%.1f", t.after.Seconds())
	if j.table {
		row := [3]string{t.seed, t.rule, seconds}
		switch {
		case t.failed != nil:
			row = [3]string{"–", "it cannot be tried", ""}
		case t.beyond != "":
			row = [3]string{"–", t.beyond, ""}
		case !t.found():
			row = [3]string{"not found", "by " + t.seeds + " seeds", ""}
		}
		say(out, "| `%s` | %s | %s | %s | %s |\n", m.id, m.why, row[0], row[1], row[2])
		return
	}
	switch {
	case t.failed != nil:
		say(out, "%-10s  %-36s          %v\n", "NOT TRIED", m.id, t.failed)
	case t.beyond != "":
		say(out, "%-10s  %-36s          %s\n", "not asked", m.id, t.beyond)
	case t.found():
		say(out, "%-10s  %-36s %5s s  seed %s: %s\n", "found", m.id, seconds, t.seed, t.rule)
	default:
		say(out, "%-10s  %-36s          %s seeds\n            %s\n", "NOT FOUND", m.id, t.seeds, m.why)
	}
}

// simulatedEdits are the edits that the simulation can notice: no Lua runs there, so what breaks a script has to break
// its twin, and what needs a pause has to yield.
func (m mutant) simulatedEdits() []edit {
	if form := simulatedForms()[m.id]; form != nil {
		return form
	}
	var all []edit
	for _, e := range m.edits {
		if !strings.HasSuffix(e.file, ".lua") {
			all = append(all, e)
		}
	}
	return all
}

// cannotBeSimulated says why the simulation cannot find a mutant; "": it has to.
func (m mutant) cannotBeSimulated() string {
	switch {
	case beyondTheSimulation()[m.id] != "":
		return beyondTheSimulation()[m.id]
	case len(m.simulatedEdits()) == 0:
		return "Lua only: the twin is not changed"
	default:
		return ""
	}
}
