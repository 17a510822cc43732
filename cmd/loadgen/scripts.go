package main

import (
	"bufio"
	"maps"
	"slices"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// writeScripts writes a SCRIPT LOAD of each of the engine's scripts, in the protocol of Redis: for administrators who
// load them where the engine's user may not. Whatever else stands between changes a script's SHA-1.
func (p *program) writeScripts() {
	texts := resp.ScriptTexts()
	out := bufio.NewWriter(p.stdout)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		say(out, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(texts[name]), texts[name])
	}
	if err := out.Flush(); err != nil {
		say(p.stderr, "loadgen: write the scripts: %v\n", err)
		p.status = report.StatusFailed
	}
}
