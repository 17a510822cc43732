package main

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// leastColumns is the narrowest a terminal may say it is. What does not fit then is broken by the terminal.
const leastColumns = 40

// columnsOf says how many columns w has now: a terminal may be resized. 0: it is no terminal.
func columnsOf(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() int { return 0 }
	}
	return func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 80
		}
		return max(columns, leastColumns)
	}
}

// onScreen reports whether both go to a terminal: what one of them says need not be repeated on the other.
func onScreen(stdout, stderr io.Writer) bool {
	return columnsOf(stdout)() > 0 && columnsOf(stderr)() > 0
}

// tableWidth is how many columns a table on w may have; 0: as many as it needs. COLUMNS overrules the terminal, as it
// does elsewhere, and is honoured in a pipe, too; else nothing is wrapped there: a program reads it.
func tableWidth(w io.Writer, getenv func(string) string) int {
	if columns, err := strconv.Atoi(getenv("COLUMNS")); err == nil && columns > 0 {
		return max(columns, leastColumns)
	}
	return columnsOf(w)()
}
