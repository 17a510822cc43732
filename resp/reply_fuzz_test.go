package resp

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
)

// FuzzReplyOfScripts reads anything as the reply of each command: it must not panic, and grant no more keys than the
// reply says.
func FuzzReplyOfScripts(f *testing.F) {
	for _, text := range []string{
		"*2\r\n:1\r\n:3\r\n", "*6\r\n:1\r\n:0\r\n:1\r\n:500\r\n:1\r\n:500\r\n", "*8\r\n:1\r\n:1\r\n:1\r\n:5\r\n:0\r\n:0\r\n:3\r\n:-3\r\n",
		"*6\r\n:1\r\n:2\r\n:1\r\n:5\r\n:-1\r\n:1700000000000000\r\n",
		"*5\r\n:1\r\n:2\r\n:7\r\n:1\r\n:-15\r\n", "*3\r\n:1\r\n:1\r\n:0\r\n", "*4\r\n:1\r\n:2\r\n:2\r\n-NOPERM no\r\n", "*1\r\n:1\r\n",
		"*3\r\n:1\r\n:-3\r\n:0\r\n", "*5\r\n:1\r\n:0\r\n:0\r\n:1\r\n:-1\r\n", "*3\r\n:1\r\n:1\r\n:4\r\n",
		"*3\r\n:1\r\n:2\r\n:1700000000000000\r\n", "*3\r\n:1\r\n:3\r\n:0\r\n", "*3\r\n:1\r\n:4\r\n:0\r\n", "*3\r\n:1\r\n:0\r\n:0\r\n",
		"-NOSCRIPT no\r\n", "-MOVED 5 a:1\r\n", "_\r\n", "*3\r\n:-1\r\n$1\r\na\r\n$1\r\n1\r\n",
	} {
		for which := range replyCommands {
			f.Add(uint8(which), text)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		m, _, ok := decode(text)
		if !ok {
			return
		}
		c := replyCommands[int(which)%len(replyCommands)]
		cmd, w := asking(c.kind, c.family, c.keys), &wire{}
		outcome := cmd.readReply(w, mock.Result(m), 1, 2)
		granted, unknown := int64(0), 0
		for _, r := range cmd.results {
			switch {
			case r.Code == CodeGranted:
				granted++
			case r.Code == CodeError && r.Err == nil:
				unknown++
			}
			answers := answersOf[c.kind]
			if c.kind == OpReacquire && c.family == FamilyLatch {
				answers = looks
			}
			if c.kind == OpReacquire && c.family == FamilyBarrier {
				answers = []Code{CodeError, CodeMet, CodeWrongKind}
			}
			if outcome == settled && !slices.Contains(answers, r.Code) {
				t.Fatalf("%s: %q is no answer: %d", c.name, text, r.Code)
			}
			if r.Code == CodePassed && r.Value != 7 {
				t.Fatalf("%s: %q passes on to %d", c.name, text, r.Value)
			}
			if r.Since < 0 || r.Since > 0 && (r.Code != CodeBusy || c.family != FamilyFair) && outcome == settled && !w.malformed.Load() {
				t.Fatalf("%s: %q: in the queue since %d", c.name, text, r.Since)
			}
			if r.Value > longestMs && r.Code == CodeBusy && c.family != FamilyLatch {
				t.Fatalf("%s: %q: %d ms", c.name, text, r.Value)
			}
		}
		values, _ := m.ToArray()
		switch {
		case outcome == settled && unknown > 0:
			t.Fatalf("%s: %q leaves %d of %d without an answer", c.name, text, unknown, c.keys)
		case granted == 0 || outcome != settled:
		case len(values) < 2:
			t.Fatalf("%s: %q grants", c.name, text)
		case c.kind == OpAcquire && c.family != FamilyFenced:
			if n, _ := number(&values[1]); n != granted {
				t.Fatalf("%s: %q grants %d", c.name, text, granted)
			}
		}
		if w.malformed.Load() && granted > 0 {
			t.Fatalf("%s: %q is malformed and grants", c.name, text)
		}
		part := make([]Renewal, c.keys)
		readRenewals(&wire{}, mock.Result(m), part, exchange{1, 2})
	})
}

// answersOf is what an op of each kind may be answered with: whoever asked knows what to do with these, and no others.
var answersOf = map[OpKind][]Code{
	OpAcquire:   {CodeError, CodeGranted, CodeBusy, CodeWrongKind},
	OpReacquire: {CodeError, CodeGranted, CodeOurs, CodeBusy, CodeWrongKind},
	OpCount:     {CodeError, CodeOurs, CodeGone, CodeWrongKind},
	OpLeave:     {CodeError, CodeOurs, CodeGone, CodeWrongKind},
	OpRelease:   {CodeError, CodeReleased, CodePassed, CodeNotOurs},
	OpExtend:    {CodeError, CodeRenewed, CodeNotOurs},
	OpForce:     {CodeError, CodeReleased, CodeNone, CodeWrongKind},
	OpInspect:   {CodeError, CodeInspected},
	OpQueue:     {CodeError, CodeInspected},
	OpCall:      {CodeError, CodeNone, CodeDone, CodeWrongKind},
}

// looks are what the look at a latch may be answered with.
var looks = []Code{CodeError, CodeGranted, CodeOpened, CodeBusy, CodeGone, CodeDeleted, CodeWrongKind}

// FuzzReplyOfNodes reads anything as what nodes and sentinels say of each other.
func FuzzReplyOfNodes(f *testing.F) {
	f.Add("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$1\r\na\r\n:7000\r\n$2\r\nid\r\n*0\r\n", "MOVED 5 a:1", "redis_version:7.0.1\r\n")
	f.Add("*2\r\n*3\r\n:0\r\n:5\r\n*2\r\n_\r\n:1\r\n*3\r\n:5\r\n:6\r\n*2\r\n_\r\n:1\r\n", "ASK 16384 :1", "cluster_current_epoch:5\r\n")
	f.Add("*2\r\n:1\r\n:1\r\n", "MOVED 0 [::1]:65536", "maxmemory:1\r\nmaxmemory_policy:x")
	f.Fuzz(func(t *testing.T, reply, refusal, info string) {
		parseInfo(info)
		parseEpoch(info)
		evictionPolicy(info)
		classOfReply(refusal)
		for _, word := range []string{"MOVED ", "ASK "} {
			if addr := redirection(refusal, word, "h:1"); strings.ContainsAny(addr, "\r\n\x1b ") {
				t.Fatalf("%q leads to %q", refusal, addr)
			}
		}
		m, _, ok := decode(reply)
		if !ok {
			return
		}
		_, _ = timeOf(mock.Result(m))
		excerptOf(&m)
		values, err := m.ToArray()
		if err != nil {
			return
		}
		checkView(t, values)
	})
}

// checkView finds what a table must not have.
func checkView(t *testing.T, values []rueidis.RedisMessage) {
	v, err := parseView(values, "h:1")
	if err != nil {
		return
	}
	var served [slotCount]bool
	for _, r := range v.ranges {
		for s := r.first; s <= r.last; s++ {
			if served[s] {
				t.Fatalf("slot %d is served twice", s)
			}
			served[s] = true
		}
	}
	if len(v.known) > maxTableNodes {
		t.Fatalf("%d nodes", len(v.known))
	}
}
