package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-signals
		cancel()
		<-signals
		os.Exit(report.StatusInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: it does what args say and returns the exit status. The end of
// ctx ends a load early; the report of what ran is written all the same.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		say(stderr, "%s", overview)
		return report.StatusUsage
	}
	switch args[0] {
	case "run":
		return runCommand(ctx, args[1:], stdout, stderr)
	case "scripts":
		return scriptsCommand(args[1:], stdout, stderr)
	case "help", "-h", "--help":
		return helpCommand(args[1:], stdout, stderr)
	case "version", "--version":
		say(stdout, "loadgen %s\n", version())
		return report.StatusOK
	default:
		return usageError(stderr, fmt.Errorf("unknown command %q", args[0]), "loadgen help")
	}
}

func helpCommand(topics []string, stdout, stderr io.Writer) int {
	switch {
	case len(topics) == 0:
		say(stdout, "%s", overview)
	case len(topics) == 1 && topics[0] == "run":
		say(stdout, "%s", runUsage())
	default:
		return usageError(stderr, fmt.Errorf("no help on %q", topics), "loadgen help")
	}
	return report.StatusOK
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runOneOf(ctx, scenario.All(), args, stdout, stderr)
}

// runOneOf runs the one of the scenarios that args name.
func runOneOf(
	ctx context.Context, all map[string]func(scenario.Stage) scenario.Scenario, args []string, stdout, stderr io.Writer,
) int {
	cfg, err := parseFlags(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		say(stdout, "%s", runUsage())
		return report.StatusOK
	case err != nil:
		return usageError(stderr, err, "loadgen help run")
	}
	tuneCollector()
	out, err := openOutputs(&cfg, stdout)
	if err != nil {
		return usageError(stderr, err, "loadgen help run")
	}
	s := session{cfg: &cfg, out: out, stderr: stderr, scenarios: all}
	r, status := s.run(ctx)
	if r == nil {
		_ = out.close() // nothing was written
		return status
	}
	if err := out.write(r); err != nil {
		say(stderr, "loadgen: write the report: %v\n", err)
		return max(r.Status, report.StatusFailed)
	}
	if r.Status != report.StatusOK {
		say(stderr, "loadgen: %s\n", r.Failures[0])
	}
	return r.Status
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
