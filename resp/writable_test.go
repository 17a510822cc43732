package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusesWritesReadsWhatInfoSays(t *testing.T) {
	full := map[string]string{"maxmemory": "100", "used_memory": "130", "maxmemory_policy": "noeviction"}
	with := func(key, value string) map[string]string {
		changed := map[string]string{key: value}
		for k, v := range full {
			if k != key {
				changed[k] = v
			}
		}
		return changed
	}
	for _, c := range []struct {
		info map[string]string
		want Class
	}{
		{nil, ClassNone},
		{map[string]string{"role": "master", "slave_read_only": "1"}, ClassNone},
		{map[string]string{"role": "slave", "slave_read_only": "1"}, ClassReadOnly},
		{map[string]string{"role": "slave", "slave_read_only": "0"}, ClassNone},
		{full, ClassOOM},
		{with("used_memory", "100"), ClassNone},
		{with("mem_not_counted_for_evict", "30"), ClassNone},
		{with("maxmemory", "0"), ClassNone},
		{with("maxmemory_policy", "allkeys-lru"), ClassNone}, // it makes room: of locks, and is warned of
		{with("used_memory", "much"), ClassNone},
		{map[string]string{"aof_last_write_status": "err"}, ClassMisconf},
		{map[string]string{"aof_last_write_status": "ok"}, ClassNone},
	} {
		class, why := refusesWrites(c.info)
		require.Equal(t, c.want, class, "%v", c.info)
		require.Equal(t, class == ClassNone, why == "", "%v", c.info)
	}
}
