package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

// program is what the commands share.
type program struct {
	stdout, stderr io.Writer
	scenarios      map[string]func(scenario.Stage) scenario.Scenario
	status         int // of what a command did; an error that it returns is one of usage
}

// root is `loadgen` with its commands. The commands `completion` and `__complete`, which the scripts of the former ask
// for values, are cobra's.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "loadgen",
		SilenceErrors: true, // they are written in one place
		SilenceUsage:  true,
		Run: func(cmd *cobra.Command, _ []string) {
			if cmd.Flags().Changed("version") {
				p.writeVersion()
				return
			}
			say(p.stderr, "%s", overview)
			p.status = report.StatusUsage
		},
	}
	// Not by cobra's templates: with them the linker keeps every method there is, and the binary is twice as large.
	root.Flags().Bool("version", false, "the version of this binary")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	others := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		switch cmd.CommandPath() {
		case "loadgen run":
			say(p.stdout, "%s", runUsage())
		case "loadgen completion", "loadgen completion bash", "loadgen completion zsh",
			"loadgen completion fish", "loadgen completion powershell":
			others(cmd, args)
		default:
			say(p.stdout, "%s", overview)
		}
	})
	help := helpCommand(root)
	root.SetHelpCommand(help)
	root.AddCommand(help, runCommand(p.load), &cobra.Command{
		Use: "scripts", Short: "the engine's Lua scripts as commands", Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Run: func(*cobra.Command, []string) { p.writeScripts() },
	}, &cobra.Command{
		Use: "version", Short: "the version of this binary", Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Run: func(*cobra.Command, []string) { p.writeVersion() },
	})
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // without Run it would take a shell that it does not know for a wish for help
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}

func (p *program) writeVersion() { say(p.stdout, "loadgen %s\n", version()) }

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "what a command does", ValidArgs: []string{"run", "completion"},
		RunE: func(_ *cobra.Command, topics []string) error {
			about, rest, err := root.Find(topics)
			if err != nil || len(rest) > 0 {
				return fmt.Errorf("no help on %q", topics)
			}
			return about.Help()
		},
	}
}

// runCommand is `loadgen run`: do gets what the flags said, once they are checked.
func runCommand(do func(context.Context, config.Config) error) *cobra.Command {
	c := new(flags)
	run := &cobra.Command{
		Use: "run [flags]", Short: "run a load", Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		SuggestFor: slices.Sorted(maps.Keys(scenario.All())), // they are values of --scenario
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return do(cmd.Context(), c.Config)
		},
	}
	run.Flags().SortFlags = false
	for _, g := range newFlags(&c.Config) {
		run.Flags().AddFlagSet(g.set)
	}
	run.Flags().VisitAll(func(f *pflag.Flag) { completeValues(run, f) })
	return run
}

// noArgs refuses arguments. A flag that was given without its value has taken the next flag for it.
func noArgs(cmd *cobra.Command, args []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); err == nil && strings.HasPrefix(value, "--") {
			name, _ := pflag.UnquoteUsage(f)
			err = fmt.Errorf("--%s wants a %s, and %q comes behind it", f.Name, cmp.Or(name, "value"), value)
		}
	})
	if err != nil {
		return err
	}
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}
