package security_test

import (
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A node of a cluster that grants whatever it is asked for, and names these masters.
func grants(masters []*fakeServer) func(args []string) (string, bool) {
	return func(args []string) (string, bool) {
		now := time.Now()
		switch strings.ToUpper(args[0]) {
		case "INFO":
			return bulk("redis_version:7.0.0\r\nredis_mode:cluster\r\n"), true
		case "TIME":
			return "*2\r\n" + bulk(strconv.FormatInt(now.Unix(), 10)) + bulk("0"), true
		case "CLUSTER":
			if strings.EqualFold(args[1], "INFO") {
				return bulk("cluster_state:ok\r\n"), true
			}
			table := fmt.Sprintf("*%d\r\n", len(masters))
			for i, m := range masters {
				host, port, _ := net.SplitHostPort(m.addr())
				first, last := i*16384/len(masters), (i+1)*16384/len(masters)-1
				table += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n%s:%s\r\n", first, last, bulk(host), port)
			}
			return table, true
		case "EVALSHA":
			if args[2] == "1" { // the script for a single key
				return fmt.Sprintf(":%d\r\n", now.UnixMilli()), true
			}
			return fmt.Sprintf("*2\r\n:%d\r\n:%s\r\n", now.UnixMilli(), args[2]), true
		}
		return "", false
	}
}

// Whoever answers CLUSTER SLOTS may name a thousand masters, and let all of them answer. A connection to one of many is
// a small one. Here are a hundred, with two connections each.
func TestAThousandMastersThatAnswerTakeLittleMemory(t *testing.T) {
	masters := make([]*fakeServer, 100)
	for i := range masters {
		masters[i] = startFake(t, nil, func(args []string) (string, bool) { return grants(masters)(args) })
	}
	runtime.GC()
	before := testkit.Memory()
	e := testkit.Open(t, masters[0].addr(), func(c *engine.Config) { c.Topology = engine.TopologyCluster })
	reached := map[int]bool{}
	for i := 0; len(reached) < len(masters); i++ {
		name := testkit.Numbered("a", i)
		if m := int(slot.Of(name)) * len(masters) / 16384; !reached[m] {
			reached[m] = true
			testkit.Acquire(t, e.Lock(name))
		}
	}
	runtime.GC()
	taken := (testkit.Memory() - before) >> 20
	t.Logf("%d MB", taken)
	require.Len(t, e.Stats().Nodes, len(masters))
	require.Less(t, taken, uint64(40), "MB")
}

// A sentinel may name thousands of others, each of which does so, too: of a reply that long nothing is read, and what it
// says of the master counts all the same.
func TestASentinelThatNamesThousandsIsNotRead(t *testing.T) {
	t.Parallel()
	master := redistest.Run(t, redistest.Options{})
	s := &testimony{master: master.Addr(), epoch: "1"}
	for i := range 3000 {
		s.others = append(s.others, fmt.Sprintf("127.0.0.1:%d", 1+i))
	}
	f := startFake(t, nil, s.answer)
	e := testkit.Open(t, f.addr(), func(c *engine.Config) { c.MasterName = "m" })
	require.Positive(t, e.Stats().ConnectionsRefused)
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	testkit.Finish(t, master, e)
}

// An error of 60 KB is none of a server's: so much is read where much is asked for only.
func TestAServerThatSaysMuchToLittleLosesItsConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	e := testkit.Open(t, p.Addr())
	testkit.Release(t, testkit.Acquire(t, e.Lock("a")))
	require.Zero(t, e.Stats().ConnectionsRefused)
	p.Refuse(faultproxy.Command("EVALSHA"), 1, "ERR "+strings.Repeat("x", 60<<10))
	lease, err := e.Lock("a").Acquire(t.Context())
	require.NoError(t, err, "it is asked for again")
	testkit.Release(t, lease)
	require.EqualValues(t, 1, e.Stats().ConnectionsRefused)
	testkit.Finish(t, s, e)
}
