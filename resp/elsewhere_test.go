package resp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// fakeCluster is a cluster of two masters, each with half of the slots.
func fakeCluster(t *testing.T, source, target *fakeServer) *Nodes {
	t.Helper()
	ns := tableOf(t, clock.NewFake(1))
	ns.dial = func(addr string) (rueidis.Client, error) {
		return map[string]rueidis.Client{"m0:1": source, "m1:1": target}[addr], nil
	}
	require.NoError(t, ns.adopt(evenly(2, "m")))
	return ns
}

// scriptNamed is the name of a script.
func scriptNamed(sha string) string {
	for _, s := range catalogue {
		if s.sha == sha {
			return s.name
		}
	}
	return ""
}

// done lists what a server was asked beside handshakes: commands, and names of scripts.
func (s *fakeServer) done() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.asked {
		switch cmd[0] {
		case "SCRIPT", "INFO", "TIME", "ROLE":
		case "EVALSHA":
			all = append(all, scriptNamed(cmd[1]))
		default:
			all = append(all, cmd[0])
		}
	}
	return all
}

// What a node of a cluster does not serve any more, or not quite, is renewed where it is, or its holder is told nothing that
// is not so.
func TestARenewalElsewhere(t *testing.T) {
	key := "name"
	for i := 0; slot.Of(key) >= slotCount/2; i++ {
		key = fmt.Sprint("name", i)
	}
	s := slot.Of(key)
	renewed := "*2\r\n:1700000000000\r\n:1\r\n"
	none := "*4\r\n:1700000000000\r\n:0\r\n:1\r\n:-1\r\n"
	moved, ask := fmt.Sprintf("-MOVED %d m1:1\r\n", s), fmt.Sprintf("-ASK %d m1:1\r\n", s)
	const lock, read = FamilyLock, FamilyRead
	for name, c := range map[string]struct {
		family         Family
		source, target map[string]string // what is answered: by the command, or "renew"
		code           Code
		class          Class
		then           []string // what the target does
		owner          string   // of the slot, afterwards
	}{
		"Here":  {lock, map[string]string{"renew": renewed}, nil, CodeRenewed, 0, nil, "m0:1"},
		"Moved": {lock, map[string]string{"renew": moved}, nil, CodeError, ClassMoved, nil, "m1:1"},
		"MovedNowhere": {
			lock, map[string]string{"renew": "-MOVED 99999 m1:1\r\n"}, nil, CodeError, ClassMoved, nil, "m0:1",
		},
		"OnItsWay": {
			lock,
			map[string]string{"renew": ask},
			map[string]string{"renew": renewed},
			CodeRenewed, 0,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		"OnItsWayGone": {
			lock,
			map[string]string{"renew": ask},
			map[string]string{"renew": none},
			CodeNotOurs, 0,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		"OnItsWayLost": {
			lock,
			map[string]string{"renew": ask},
			map[string]string{"renew": fakeBroken},
			CodeError, ClassUnknown,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		"OnItsWayNoKey": {
			lock,
			map[string]string{"renew": ask},
			map[string]string{"renew": "-NOSCRIPT no\r\n"},
			CodeError, ClassNoScript,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		// A read hold's hash has arrived: its mark is renewed where that is.
		"MarkAtTheSource": {
			read,
			map[string]string{"readrenew": ask},
			map[string]string{"renew": renewed},
			CodeRenewed, 0,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		"MarkAtTheTarget": {
			read,
			map[string]string{"readrenew": ask, "SET": ask, "PEXPIRE": ask},
			map[string]string{"renew": renewed},
			CodeRenewed, 0,
			[]string{"ASKING", "renew", "ASKING", "SET", "ASKING", "PEXPIRE"},
			"m0:1",
		},
		"MarkRefused": {
			read,
			map[string]string{"readrenew": ask, "SET": "-NOPERM no\r\n"},
			map[string]string{"renew": renewed},
			CodeError, ClassNoPerm,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		"MarkRefusedAtTheTarget": {
			read,
			map[string]string{"readrenew": ask, "SET": ask, "PEXPIRE": ask},
			map[string]string{"renew": renewed, "PEXPIRE": "-NOPERM no\r\n"},
			CodeError, ClassNoPerm,
			[]string{"ASKING", "renew", "ASKING", "SET", "ASKING", "PEXPIRE"},
			"m0:1",
		},
		"MarkLost": {
			read,
			map[string]string{"readrenew": ask, "PEXPIRE": fakeBroken},
			map[string]string{"renew": renewed},
			CodeError, ClassUnknown,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
		"NoMarkOfWhatIsGone": {
			read,
			map[string]string{"readrenew": ask, "SET": ask, "PEXPIRE": ask},
			map[string]string{"renew": none},
			CodeNotOurs, 0,
			[]string{"ASKING", "renew"},
			"m0:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				says := func(answers map[string]string) func(*fakeConn, []string) string {
					return func(_ *fakeConn, cmd []string) string {
						if cmd[0] == "EVALSHA" {
							return answers[scriptNamed(cmd[1])]
						}
						if cmd[0] == "PEXPIRE" && answers["PEXPIRE"] == "" {
							return ":1\r\n"
						}
						return answers[cmd[0]]
					}
				}
				source, target := &fakeServer{says: says(c.source)}, &fakeServer{says: says(c.target)}
				ns := fakeCluster(t, source, target)
				batch := []Renewal{{Key: key, Field: nodeID + ":1", Family: c.family, LeaseMs: 30_000}}
				ns.Owner(s).Renew(false, time.Second, batch)
				require.Equal(t, c.code, batch[0].Code, "%v", batch[0].Err)
				if c.code == CodeError {
					require.Equal(t, c.class, batch[0].Err.Class, "%v", batch[0].Err)
				} else {
					require.Nil(t, batch[0].Err)
				}
				require.Equal(t, c.then, target.done())
				synctest.Wait()
				for server, answers := range map[*fakeServer]map[string]string{source: c.source, target: c.target} {
					broken := slices.Contains(slices.Collect(maps.Values(answers)), fakeBroken)
					for _, conn := range server.conns {
						require.Equal(t, broken, conn.closed(), "what has an unanswered command is given up, and nothing else")
					}
				}
				require.Equal(t, c.owner, ns.Owner(s).Addr())
				marks := 0
				for _, cmd := range slices.Concat(source.asked, target.asked) {
					if cmd[0] == "SET" || cmd[0] == "PEXPIRE" {
						marks++
						require.Equal(t, readMark(key, nodeID+":1"), cmd[1])
					}
				}
				if !strings.HasPrefix(name, "Mark") {
					require.Zero(t, marks)
				}
			})
		})
	}
}

// A renewal whose answer makes it doubtful that this is the right server has it found out.
func TestARenewalThatIsRefusedIsASuspicion(t *testing.T) {
	for answer, doubtful := range map[string]bool{
		"*2\r\n:1700000000000\r\n:1\r\n":              false,
		"-NOPERM no\r\n":                              false,
		"-READONLY a replica\r\n":                     true,
		"-MASTERDOWN the link is down\r\n":            true,
		"-CLUSTERDOWN the cluster is down\r\n":        true,
		"-LOADING the dataset is in memory\r\n":       true,
		fakeBroken:                                    true,
		"*4\r\n:1700000000000\r\n:0\r\n:1\r\n:-1\r\n": false,
	} {
		for _, cluster := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
					if cmd[0] == "EVALSHA" {
						return answer
					}
					return ""
				}}
				var n *Node
				var suspicion chan struct{}
				if cluster {
					ns := fakeCluster(t, s, s)
					n, suspicion = ns.Owner(0), ns.suspect
				} else {
					n, suspicion = fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s}), make(chan struct{}, 1)
					n.follow = &follower{doubts: suspicion}
				}
				n.Renew(false, time.Second, []Renewal{{Key: "name", Field: nodeID + ":1", LeaseMs: 30_000}})
				require.Equal(t, doubtful, len(suspicion) == 1, "%q, cluster %v", answer, cluster)
			})
		}
	}
}

// What travels together is bounded by its work: the commands of many kinds, one key each, are one round trip.
func TestManyKindsOfRenewalsAreOneRoundTrip(t *testing.T) {
	part := func(keys, ids int) []Renewal {
		all := make([]Renewal, keys)
		for i := range all {
			all[i] = Renewal{Field: strings.Repeat("p", max(ids, 1)*PermitID)}
			if ids > 0 {
				all[i].Family = FamilyPermits
			}
		}
		return all
	}
	for _, c := range []struct{ parts, keys, ids, want int }{
		{2000, 1, 0, 2000},
		{MaxRenewWork, 1, 0, MaxRenewWork},
		{MaxRenewWork + 1, 1, 0, MaxRenewWork},
		{17, maxKeys, 0, 16},
		{100, 1, 100, 21}, // what was begun below the bound
		{3, 1, 2 * MaxRenewWork, 1},
		{0, 0, 0, 0},
	} {
		all := make([][]Renewal, c.parts)
		for i := range all {
			all[i] = part(c.keys, c.ids)
		}
		require.Equal(t, c.want, renewable(all), "%+v", c)
	}
}

// Renewals share a command if they are of one kind: it gives all of its keys one lease.
func TestRenewalsOfOneLeaseShareACommand(t *testing.T) {
	var asked []string
	s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
		if cmd[0] != "EVALSHA" {
			return ""
		}
		keys := cmd[2]
		asked = append(asked, scriptNamed(cmd[1])+" "+keys+" "+strings.Join(cmd[3:], " "))
		return "*2\r\n:1700000000000\r\n:" + keys + "\r\n"
	}}
	n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s})
	batch := []Renewal{
		{Key: "a", Field: "f", LeaseMs: 30_000},
		{Key: "b", Field: "g", LeaseMs: 30_000},
		{Key: "c", Field: "h", LeaseMs: 10_000},
		{Key: "d", Field: "i", LeaseMs: 10_000, Family: FamilyRead},
		{Key: "e", Field: "j", LeaseMs: 10_000, Family: FamilyRead},
	}
	n.Renew(false, time.Second, batch)
	require.Equal(t, []string{"renew 2 a b 30000 1 0 f g", "renew 1 c 10000 1 0 h", "readrenew 2 d e 10000 1 0 i j"}, asked)
	for _, r := range batch {
		require.Equal(t, CodeRenewed, r.Code, r.Key)
	}
}

// Of many marks each has its own answer.
func TestEachMarkInAMoveHasItsOwnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := readMark("b", "f")
		s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
			switch {
			case cmd[0] == "SET" && cmd[1] == refused:
				return "-NOPERM no\r\n"
			case cmd[0] == "SET": // it is there
				return "$-1\r\n"
			case cmd[0] == "PEXPIRE":
				return ":1\r\n"
			}
			return ""
		}}
		n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s})
		var holds []*Renewal
		for _, key := range []string{"a", "b", "c"} {
			holds = append(holds, &Renewal{Key: key, Field: "f", Family: FamilyRead, LeaseMs: 30_000, Code: CodeError, Err: errSplit})
		}
		require.Empty(t, n.setMarks(n.renewals, false, time.Second, holds))
		for _, r := range holds {
			want := map[bool]Code{false: CodeRenewed, true: CodeError}[r.Key == "b"]
			require.Equal(t, want, r.Code, r.Key)
			require.Equal(t, want == CodeError, r.Err != nil, r.Key)
		}
		synctest.Wait()
		require.False(t, s.conns[0].closed(), "that it is there, or refused, is an answer")
	})
}

// Which keys have to be on one side, by family and what is asked for.
func TestTheKeysThatHaveToBeOnOneSide(t *testing.T) {
	token, mark, notes := []string{slot.FenceToken("k")}, []string{readMark("k", "f")}, []string{slot.CountedRequests("k")}
	queue := []string{slot.FairQueue("k"), slot.FairTimeouts("k"), slot.FairHeard("k"), slot.FairAsked("k"), slot.FairNotes("k")}
	set := []string{"k", slot.PermitTimeouts("k")}
	kinds := []OpKind{OpAcquire, OpReacquire, OpRelease, OpExtend, OpForce, OpInspect, OpQueue, OpCount, OpLeave, OpCall}
	for family, want := range map[Family]map[OpKind][]string{
		FamilyLock: nil, FamilySpin: nil, FamilyWrite: nil, FamilyBarrier: nil,
		FamilyFenced: {OpAcquire: token, OpReacquire: token},
		FamilyFair:   {OpAcquire: queue, OpReacquire: queue},
		FamilyRead:   {OpReacquire: mark, OpExtend: mark},

		FamilyPermits:   {OpAcquire: set, OpReacquire: set, OpRelease: set, OpForce: set, OpInspect: set, OpCount: set, OpLeave: set, OpCall: set},
		FamilySemaphore: {OpAcquire: notes, OpReacquire: notes, OpRelease: notes},
		FamilyLatch:     {OpAcquire: notes, OpReacquire: notes, OpRelease: notes, OpCall: notes},
	} {
		for _, kind := range kinds {
			op := &Op{Kind: kind, Family: family, Key: "k", Field: "f"}
			require.Equal(t, want[kind], op.otherKeys(), "kind %v of family %v", kind, family)
		}
	}
}
