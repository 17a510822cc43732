package main

// commands breaks loadgen's commands, and what the shell is told of their flags.
func commands() []mutant {
	const lg = "cmd/loadgen/"
	const values = "TestValuesComplete"
	return []mutant{
		{
			"complete-not-every-scenario", "a scenario that nobody is told of",
			one(lg+"completion.go", "scenario.Names(),", "scenario.Names()[1:],"), "cmd/loadgen", "TestEveryScenarioCompletes", false,
		},
		{
			"complete-the-first-of-a-list", "a second disturbance takes the place of the first",
			one(lg+"completion.go", "typed[:strings.LastIndex(typed, \",\")+1]", "typed[:0]"), "cmd/loadgen", values, false,
		},
		{
			"complete-no-files", "the shell does not complete the name of a file",
			one(lg+"completion.go", "what == \"file\"", "what == \"FILE\""), "cmd/loadgen", values, false,
		},
		{
			"completion-of-any-shell", "an unknown shell is answered with the help, and status 0",
			one(lg+"commands.go", "cmd.Name() == \"completion\"", "cmd.Name() == \"\""), "cmd/loadgen", "TestCommands", false,
		},
		{
			"usage-has-no-status", "a script that calls it without a command believes that it ran",
			one(lg+"commands.go", "p.status = report.StatusUsage", "p.status = report.StatusOK"), "cmd/loadgen", "TestCommands", false,
		},
	}
}
