package rival

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/internal/yardstick"
	"github.com/seed-786ebc8c/holdfast/resp"
)

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
			return append(args, "1", n.Key, n.Publish, "0", "0", "", n.Field, "1")
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
