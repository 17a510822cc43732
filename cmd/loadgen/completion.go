package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
)

// enumerations are the values of the flags of `loadgen run` that know no others: for the check and for the shell.
func enumerations() map[string][]string {
	return map[string][]string{
		"scenario":     scenario.Names(),
		"kind":         lockKinds,
		"api":          {"async", "sync"},
		"check-server": {"auto", "on", "off"},
		"chaos":        chaosKinds,
	}
}

// completeValues has the shell complete the values of f: those of an enumeration, names of files where the help says
// `file`, nothing else.
func completeValues(run *cobra.Command, f *pflag.Flag) {
	values, enumerated := enumerations()[f.Name]
	var complete cobra.CompletionFunc
	switch what, _ := pflag.UnquoteUsage(f); {
	case what == "file":
		return
	case !enumerated:
		complete = cobra.NoFileCompletions
	case f.Value.Type() == "stringSlice":
		complete = completeList(values)
	default:
		complete = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	if err := run.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
		panic(err) // f is not of run, or is registered twice
	}
}

// completeList completes the last of values with commas between, by those that do not stand there yet.
func completeList(values []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var lists []cobra.Completion
		for _, v := range values {
			if list := before + v; strings.HasPrefix(list, typed) && !slices.Contains(strings.Split(before, ","), v) {
				lists = append(lists, list)
			}
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
