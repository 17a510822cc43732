package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFollowBelievesWhatMostSentinelsSay(t *testing.T) {
	t.Parallel()
	unreachable := &ServerError{Class: ClassUnreachable, Text: "dead"}
	unknown := &ServerError{Class: ClassOther, Text: "no such name", cause: ErrNoSuchMaster}
	noPerm := &ServerError{Class: ClassNoPerm, Text: "NOPERM"}
	says := func(addr string, epoch int64) finding { return finding{addr: addr, epoch: epoch} }
	fails := func(err *ServerError) finding { return finding{err: err} }
	const older, disagree = "the sentinels that answer have an older configuration", "the sentinels do not agree"
	const many = 1 << 60 // what a sentinel that lies claims
	old := followed{"old:1", 5}
	for name, c := range map[string]struct {
		all   []finding
		now   followed // zero: nothing yet
		known int
		want  string // an address, or the text of the error
		weak  bool
	}{
		"OneAnswers":                   {all: []finding{fails(unreachable), says("a:1", 0)}, known: 3, want: "a:1"},
		"MostAtFirst":                  {all: []finding{says("a:1", 4), says("evil:1", many), says("a:1", 4)}, known: 3, want: "a:1"},
		"NoneOfTwoAtFirst":             {all: []finding{says("a:1", 4), says("evil:1", many)}, known: 2, want: disagree},
		"OneKnowsTheName":              {all: []finding{fails(unknown), says("a:1", 1)}, known: 3, want: "a:1"},
		"NobodyKnowsTheName":           {all: []finding{fails(unreachable), fails(noPerm), fails(unknown)}, known: 3, want: "no such name"},
		"Refused":                      {all: []finding{fails(unreachable), fails(noPerm)}, known: 3, want: "NOPERM"},
		"NobodyAnswers":                {all: []finding{fails(unreachable), fails(unreachable)}, known: 3, want: "no sentinel answered"},
		"TheOnlyOneSaysWhy":            {all: []finding{fails(unreachable)}, known: 1, want: "dead"},
		"NobodyAnswersInTime":          {now: old, known: 3, want: "no sentinel answered"},
		"AFailover":                    {all: []finding{says("new:1", 6), says("new:1", 6), says("old:1", 5)}, now: old, known: 3, want: "new:1"},
		"AFailoverThatOneHasHeardOf":   {all: []finding{says("new:1", 6), says("old:1", 5), says("old:1", 5)}, now: old, known: 3, want: "old:1"},
		"ALiarAlone":                   {all: []finding{says("old:1", 5), says("evil:1", many), says("old:1", 5)}, now: old, known: 3, want: "old:1"},
		"ALiarAndOneThatIsDead":        {all: []finding{says("old:1", 5), says("evil:1", many), fails(unreachable)}, now: old, known: 3, want: "old:1"},
		"ALiarInAFailover":             {all: []finding{says("new:1", 6), says("evil:1", many), says("new:1", 6)}, now: old, known: 3, want: "new:1"},
		"ALiarThatAnswersAlone":        {all: []finding{fails(unreachable), says("evil:1", many)}, now: old, known: 3, want: "evil:1", weak: true},
		"ALiarUnderHalfOfMany":         {all: []finding{says("old:1", 5), says("evil:1", many), says("old:1", 5), says("evil:1", many)}, now: old, known: 4, want: "old:1"},
		"AnOutageOfMost":               {all: []finding{says("new:1", 6), says("new:1", 6), fails(unreachable), fails(unreachable)}, now: old, known: 4, want: "new:1", weak: true},
		"CutOffOneIsNotBelieved":       {all: []finding{says("x:1", 4)}, now: old, known: 3, want: older},
		"HalfIsNotEnough":              {all: []finding{says("x:1", 4), says("x:1", 4)}, now: old, known: 4, want: older},
		"SetUpAnew":                    {all: []finding{says("anew:1", 0), says("anew:1", 0)}, now: old, known: 3, want: "anew:1"},
		"StartedAnewAndLate":           {all: []finding{says("x:1", 4), says("x:1", 4), says("old:1", 5)}, now: old, known: 3, want: "x:1", weak: true},
		"TheSameEpochIsNoStepBackward": {all: []finding{says("old:1", 5)}, now: old, known: 9, want: "old:1"},
		"ALiarWithTheRightMaster":      {all: []finding{says("old:1", many), says("old:1", 5)}, now: old, known: 2, want: "old:1"},
		"ThreeSayThreeThings":          {all: []finding{says("x:1", 6), says("y:1", 6), says("z:1", 6)}, now: old, known: 3, want: disagree},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := choose(c.all, c.now, c.known)
			if got.err != nil {
				require.Equal(t, c.want, got.err.Text)
				return
			}
			require.Equal(t, c.want, got.addr)
			require.Equal(t, c.weak, got.weak)
			if !c.weak {
				require.Less(t, got.epoch, int64(many), "a failover to come would seem old")
			}
		})
	}
}

// A sentinel that lies names as many others as it takes to be most, and leaves out those that there are. Neither it nor
// the silence of the others changes who has a vote.
func TestFollowMeetsTheSentinelsThatMostName(t *testing.T) {
	t.Parallel()
	says := func(from string, peers ...string) finding { return finding{from: from, addr: "m:1", peers: peers} }
	dead := finding{from: "b", err: &ServerError{Class: ClassUnreachable}}
	a, b, c, liar := says("a", "b", "c"), says("b", "a", "c"), says("c", "a", "b"), says("c", "x", "y", "z")
	before := map[string]bool{"a": true, "b": true, "c": true}
	abc := []string{"a", "b", "c"}
	for name, one := range map[string]struct {
		voices []finding
		before map[string]bool
		want   []string
	}{
		"AtFirst":          {[]finding{a}, nil, abc},
		"AtFirstByMost":    {[]finding{a, b, liar}, nil, abc},
		"AsBefore":         {[]finding{a, b, c}, before, abc},
		"ALiar":            {[]finding{a, b, liar}, before, abc},
		"ALiarAndOne":      {[]finding{a, dead, liar}, before, abc},
		"ALiarAlone":       {[]finding{dead, liar}, before, abc},
		"ANewOne":          {[]finding{says("a", "b", "c", "d"), says("b", "a", "c", "d"), c}, before, []string{"a", "b", "c", "d"}},
		"OneThatIsGone":    {[]finding{says("a", "b"), says("b", "a")}, before, []string{"a", "b"}},
		"OneThatIsSilent":  {[]finding{a, c, dead}, before, abc},
		"OneThatIsChanged": {[]finding{says("a", "d", "c"), says("c", "a", "d")}, before, []string{"a", "c", "d"}},
	} {
		require.Equal(t, one.want, agreedPeers(one.voices, one.before, 3), name)
	}
}

// A sentinel that is asked by its name and by its address has one vote.
func TestFollowCountsASentinelOnce(t *testing.T) {
	t.Parallel()
	f := &follower{named: map[string]bool{"10.0.0.1:1": true, "10.0.0.2:1": true, "10.0.0.3:1": true}}
	says := func(from, master string) finding { return finding{from: from, addr: master} }
	dead := func(from string) finding { return finding{from: from, err: &ServerError{Class: ClassUnreachable}} }
	byName, one, two, three := says("s:1", "evil:1"), says("10.0.0.1:1", "evil:1"), says("10.0.0.2:1", "m:1"), says("10.0.0.3:1", "m:1")
	voices, known := f.voices([]finding{byName, one, two, three})
	require.Equal(t, []finding{one, two, three}, voices)
	require.Equal(t, 3, known)
	voices, _ = f.voices([]finding{byName, dead("10.0.0.1:1"), two})
	require.Equal(t, []finding{dead("10.0.0.1:1"), two}, voices)
	// Addresses of a network that is not ours.
	voices, known = f.voices([]finding{says("a:1", "m:1"), says("b:1", "m:1"), dead("10.0.0.1:1"), dead("10.0.0.2:1")})
	require.Equal(t, []finding{says("a:1", "m:1"), says("b:1", "m:1")}, voices)
	require.Equal(t, 3, known)
	f.seeds = []string{"a:1", "b:1", "c:1", "d:1"}
	voices, known = f.voices([]finding{dead("a:1"), dead("10.0.0.1:1")})
	require.Equal(t, 4, known)
	require.Len(t, voices, 2)
}
