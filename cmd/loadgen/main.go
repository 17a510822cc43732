package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

func main() {
	ctx, exit := untilInterrupted()
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// untilInterrupted returns a context that ends with the first interrupt: what ran is reported. The second ends the process,
// and its servers. exit ends the process, unless the second interrupt is doing that.
func untilInterrupted() (_ context.Context, exit func(status int)) {
	var exiting sync.Mutex
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-signals
		cancel()
		<-signals
		exiting.Lock()
		redisproc.StopAll()
		os.Exit(report.StatusInterrupted)
	}()
	return ctx, func(status int) {
		exiting.Lock()
		os.Exit(status)
	}
}

// run is the whole program: it does what args say and returns the exit status. The end of
// ctx ends a load early; the report of what ran is written all the same.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runOneOf(ctx, scenario.All(), args, stdout, stderr)
}

// runOneOf is run, with these scenarios.
func runOneOf(
	ctx context.Context, all map[string]func(scenario.Stage) scenario.Scenario, args []string, stdout, stderr io.Writer,
) int {
	p := program{stdout: stdout, stderr: stderr, scenarios: all}
	root := p.root()
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return p.status
	case cmd.Name() == "run":
		return usageError(stderr, err, "loadgen help run")
	default:
		return usageError(stderr, err, "loadgen help")
	}
}

// load runs the scenario that cfg names. An error is one of usage: nothing was run.
func (p *program) load(ctx context.Context, cfg config.Config) error {
	tuneCollector()
	out, err := openOutputs(&cfg, p.stdout)
	if err != nil {
		return err
	}
	s := session{cfg: &cfg, out: out, stderr: p.stderr, scenarios: p.scenarios}
	r, status := s.run(ctx)
	p.status = status
	if r == nil {
		_ = out.close() // nothing was written
		return nil
	}
	if err := out.write(r); err != nil {
		say(p.stderr, "loadgen: write the report: %v\n", err)
		p.status = max(r.Status, report.StatusFailed)
		return nil
	}
	if r.Status != report.StatusOK && (out.table == nil || !onScreen(p.stdout, p.stderr)) { // else the table has said it
		say(p.stderr, "loadgen: %s\n", r.Failures[0])
	}
	return nil
}

// gcPercent is the collector's pace unless GOGC names another. At hundreds of thousands of
// operations a second and a heap of a few megabytes the default would collect twenty times a
// second; a service of that rate would not leave it there either. The yardstick runs under the same.
const gcPercent = 200

func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

func usageError(w io.Writer, err error, help string) int {
	say(w, "loadgen: %v\nSee %q.\n", err, help)
	return report.StatusUsage
}

// say writes to a terminal or a pipe whose end nothing could be done about.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, revision := info.Main.Version, ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	if v == "" || v == "(devel)" {
		v = "devel"
		if revision != "" {
			v += " " + revision[:min(12, len(revision))]
		}
	}
	return v + " " + info.GoVersion
}
