package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// scriptsCommand writes a SCRIPT LOAD of each of the engine's scripts, in the protocol of Redis: for administrators who
// load them where the engine's user may not. Whatever else stands between changes a script's SHA-1.
func scriptsCommand(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		return usageError(stderr, fmt.Errorf("unexpected argument %q", args[0]), "loadgen help")
	}
	texts := resp.ScriptTexts()
	out := bufio.NewWriter(stdout)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		say(out, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(texts[name]), texts[name])
	}
	if err := out.Flush(); err != nil {
		say(stderr, "loadgen: write the scripts: %v\n", err)
		return statusFailed
	}
	return statusOK
}

// noLimit is a not-after that never comes.
const noLimit = "9999999999999"

// engineScripts makes the yardstick send the engine's own scripts, one key at a time and
// without the engine.
func engineScripts() yardstick.Scripts {
	texts := resp.ScriptTexts()
	return yardstick.Scripts{
		Acquire: texts["acquire"],
		Release: texts["release"],
		AcquireArgs: func(args []string, n yardstick.Name) []string {
			return append(args, "1", n.Key, n.LeaseMs, n.Field, noLimit, "0")
		},
		ReleaseArgs: func(args []string, n yardstick.Name) []string {
			return append(args, "1", n.Key, n.Publish, "0", "0", n.Field, "1")
		},
		Granted: one,
		Freed:   one,
	}
}

// one returns nil if the reply says that the one key was granted, or released.
func one(r rueidis.RedisResult) error {
	reply, err := r.AsIntSlice()
	if err != nil {
		return err
	}
	if len(reply) < 2 || reply[1] != 1 {
		return fmt.Errorf("answered %v", reply)
	}
	return nil
}
