package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// How long the tests of a mutant may take. Whoever hangs as long has failed.
const (
	testLimit = 90 * time.Second
	hangLimit = 10 * time.Second // where they are expected to hang
)

func main() {
	pattern := flag.String("run", "", "only mutants whose id matches")
	sample := flag.Int("sample", 0, "only so many of them, drawn by the date; 0: all")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "what draws the sample")
	list := flag.Bool("list", false, "list the mutants and end")
	root := flag.String("root", ".", "the tree to copy")
	sim := flag.Bool("sim", false, "let the simulation find them, not their tests")
	limit := flag.Duration("time", time.Minute, "with -sim: how long to look for each")
	workers := flag.Int("workers", 2*runtime.NumCPU(), "how many to try at once")
	asTable := flag.Bool("table", false, "with -sim: print a table")
	pkg := flag.String("generate", "", "make mutants of this package, instead of those in the table")
	in := flag.String("in", "", "with -generate: the package whose tests look for them; \"\": the same")
	files := flag.String("files", `\.go$`, "with -generate: only of files whose names match")
	tests := flag.String("tests", ".*", "with -generate: only these tests look for them")
	n := flag.Int("n", 0, "with -generate: how many; 0: all that there are")
	seed := flag.Uint64("seed", 1, "with -generate: what draws them")
	least := flag.Float64("least", 90, "with -generate: how many percent have to be killed")
	flag.Parse()
	var j *jury
	if *sim {
		j = &jury{limit: *limit, table: *asTable}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	t := task{out: os.Stdout, root: *root, pattern: *pattern, sample: *sample, date: *date, list: *list, workers: *workers, sim: j}
	if *pkg != "" {
		t.hunt = &hunt{path.Clean(filepath.ToSlash(*pkg)), path.Clean(filepath.ToSlash(cmp.Or(*in, *pkg))), *files, *tests, *n, *seed, *least, equivalents()}
	}
	err := run(ctx, t)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A task is what was asked for.
type task struct {
	out           io.Writer
	root, pattern string
	sample        int
	date          string
	list          bool
	workers       int
	sim           *jury // nil: the mutants' tests are to find them
	hunt          *hunt // nil: those of the table
}

func run(ctx context.Context, t task) error {
	if t.hunt != nil {
		lab, err := newLab(ctx, t.root)
		if err != nil {
			return err
		}
		defer lab.close()
		return lab.mutate(ctx, t.out, *t.hunt, t.workers)
	}
	want, err := regexp.Compile(t.pattern)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range table() {
		if want.MatchString(m.id) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant's id matches %q", t.pattern)
	}
	if t.sample > 0 {
		chosen = drawn(chosen, t.sample, t.date)
		say(t.out, "%d mutants, drawn by %s (-sample %d -date %s)\n", len(chosen), t.date, t.sample, t.date)
	}
	if t.list {
		for _, m := range chosen {
			say(t.out, "%-36s %s\n%36s %s %s\n", m.id, m.why, "", m.pkg, m.tests)
		}
		return nil
	}
	lab, err := newLab(ctx, t.root)
	if err != nil {
		return err
	}
	defer lab.close()
	if t.sim != nil {
		return lab.simulate(ctx, t.out, chosen, t.sim)
	}
	return lab.try(ctx, t.out, chosen, t.workers)
}

// say reports. Nobody can act on what a terminal does with it.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// drawn are n mutants that a date chooses: others on the next day, and the same ones for everybody.
func drawn(all []mutant, n int, date string) []mutant {
	rank := func(m mutant) uint64 { return xxhash.Sum64String(date + " " + m.id) }
	all = slices.SortedFunc(slices.Values(all), func(a, b mutant) int { return cmp.Compare(rank(a), rank(b)) })
	return all[:min(n, len(all))]
}
