package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/contest"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/load"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// What is wrong and nothing else, so that no other failure covers it.
func TestEachThingThatIsWrongIsEnough(t *testing.T) {
	hold := func(change func(s *holdScenario)) func(*testing.T, *report.Report) {
		return func(t *testing.T, r *report.Report) {
			t.Helper()
			s := &holdScenario{Stage: Stage{Cfg: &config.Config{Locks: 3}}, rec: meter.NewRecorder()}
			s.held = load.NewHeld(s.Cfg, nil)
			change(s)
			require.NoError(t, s.Finish(t.Context(), r))
		}
	}
	for name, c := range map[string]struct {
		what   func(t *testing.T, r *report.Report)
		status int
		says   string
	}{
		"HoldMismatch": {hold(func(s *holdScenario) { s.beliefs.mismatches, s.beliefs.told = 1, []string{"so"} }), report.StatusFailed, "1 of 3 locks are not"},
		"HoldLeftover": {hold(func(s *holdScenario) { s.left = 1 }), report.StatusFailed, "1 locks are still on the server"},
		"HoldViolation": {hold(func(s *holdScenario) {
			s.held.Ledger.Take(0, 1)
			s.held.Ledger.Take(0, 2)
		}), report.StatusViolation, "exclusion was violated 1 times"},
		"HoldLost": {hold(func(s *holdScenario) { s.beliefs.lost = 1 }), report.StatusFailed, "1 leases were lost"},
		"ContendViolation": {func(t *testing.T, r *report.Report) {
			s := newContendScenario(Stage{Cfg: &config.Config{Keys: 1, Clients: 1, Chaos: []string{config.ChaosPause}}}).(*contendScenario)
			s.Engines, s.contest = make([]*engine.Engine, 1), contest.New(s.Cfg, make([]contest.Lock, 1), func(int) string { return "k" })
			s.served = []int64{0}
			s.contest.Ledger.Take(0, 1)
			s.contest.Ledger.Take(0, 2)
			require.NoError(t, s.Finish(t.Context(), r))
		}, report.StatusViolation, "exclusion was violated 1 times"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &report.Report{Errors: map[string]int64{}, Failures: []string{}}
			c.what(t, r)
			r.Settle()
			require.Equal(t, c.status, r.Status, r.Failures)
			require.Contains(t, strings.Join(r.Failures, "\n"), c.says)
		})
	}
}

func TestDisagreement(t *testing.T) {
	now := time.Now()
	want := belief{owner: "me", deadline: now.Add(time.Second)}
	for _, tc := range []struct {
		name   string
		fields map[string]string
		pttl   int64
		says   string
	}{
		{"Agrees", map[string]string{"me": "1"}, 1010, ""},
		{"Gone", nil, -2, "not on the server"},
		{"AnothersLock", map[string]string{"you": "1"}, 1010, "held by"},
		{"HeldTwice", map[string]string{"me": "2"}, 1010, "held 2 times"},
		{"Immortal", map[string]string{"me": "1"}, -1, "no expiry"},
		{"TrustedTooLong", map[string]string{"me": "1"}, 900, "beyond its expiry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := disagreement(want, tc.fields, tc.pttl, now)
			require.Contains(t, got, tc.says)
			require.Equal(t, tc.says == "", got == "")
		})
	}
}

func TestPermitsThatAreFreeBesideAWaiter(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	since := func(ms int) func() (time.Time, bool) { return func() (time.Time, bool) { return at(ms), true } }
	nobody := func() (time.Time, bool) { return time.Time{}, false }
	for _, tc := range []struct {
		name string
		play func(p *idlePermits)
		want time.Duration
	}{
		{"FreeAndNobodyWaits", func(p *idlePermits) {
			p.look(at(0), true, nobody)
			p.look(at(9000), true, nobody)
		}, 0},
		{"FromWhenSomebodyWaits", func(p *idlePermits) {
			p.look(at(0), true, nobody)
			p.look(at(9000), true, since(8000))
		}, time.Second},
		{"FromWhenTheyAreFree", func(p *idlePermits) {
			p.look(at(1000), false, since(0))
			p.look(at(2000), true, since(0))
			p.look(at(5000), true, since(0))
		}, 3 * time.Second},
		{"NotBeyondALookAtWhichTheyWereNot", func(p *idlePermits) {
			p.look(at(0), true, since(0))
			p.look(at(1000), true, since(0))
			p.look(at(2000), false, since(0))
			p.look(at(3000), true, since(0))
			p.look(at(3500), true, since(0))
		}, time.Second},
		{"AnotherOneWaits", func(p *idlePermits) {
			p.look(at(0), true, since(0))
			p.look(at(500), true, since(400))
			p.look(at(1000), true, since(900))
		}, 100 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p idlePermits
			tc.play(&p)
			require.Equal(t, tc.want, p.longest)
		})
	}
}

func TestTokensThatDoNotRiseAreAViolation(t *testing.T) {
	check := newTokenCheck(&config.Config{Keys: 2, Prefix: "p"})
	for _, token := range []int64{5, 6, 9} {
		check.note(0, token)
	}
	check.note(1, 1) // another name
	r := new(report.Report)
	r.Contend = new(report.Contend)
	check.addTo(r)
	r.Settle()
	require.Equal(t, report.StatusOK, r.Status)
	check.note(0, 9)
	check.note(0, 3)
	check.addTo(r)
	r.Settle()
	require.Equal(t, report.StatusViolation, r.Status)
	require.Equal(t, &report.Tokens{Checked: 6, NotRising: 2}, r.Tokens)
	require.Contains(t, strings.Join(r.Failures, "\n"), "with token 9 after 9")
}

func TestLineOfKey(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, tc := range []struct {
		name  string
		play  func(k *lineOfKey)
		want  report.Order
		taken time.Duration
	}{
		{"InOrder", func(k *lineOfKey) {
			k.begin()
			k.seen([]string{"a", "b", "c"})
			k.granted(at(0), "a")
			k.granted(at(1), "b")
			k.begin()
			k.seen([]string{"c", "d"})
			k.granted(at(2), "c")
			k.granted(at(3), "d")
		}, report.Order{Looks: 2, Followed: 4}, 0},
		{"ServedWhileTheAnswerWasOnItsWay", func(k *lineOfKey) {
			k.granted(at(0), "before")
			k.begin()
			k.granted(at(0), "a")
			k.granted(at(1), "b")
			k.seen([]string{"a", "b", "c"})
			k.granted(at(2), "c")
		}, report.Order{Looks: 1, Followed: 3}, 0},
		{"KnownAndServedWhileTheAnswerWasOnItsWay", func(k *lineOfKey) {
			k.begin()
			k.seen([]string{"a", "b", "c"})
			k.begin()
			k.granted(at(0), "a")
			k.seen([]string{"a", "b", "c", "d"})
			k.granted(at(1), "b")
		}, report.Order{Looks: 2, Followed: 2}, 0},
		{"ServedInTheWrongOrderWhileTheAnswerWasOnItsWay", func(k *lineOfKey) {
			k.begin()
			k.granted(at(0), "b")
			k.granted(at(0), "a")
			k.seen([]string{"a", "b", "c"})
		}, report.Order{Looks: 1, Followed: 2, OutOfOrder: 1}, 0},
		{"Overtaken", func(k *lineOfKey) {
			k.begin()
			k.seen([]string{"a", "b"})
			k.granted(at(300), "b")
			k.granted(at(0), "a")
		}, report.Order{Looks: 1, Followed: 2, OutOfOrder: 1}, 300 * time.Millisecond},
		{"OvertakenByTheClockAlone", func(k *lineOfKey) {
			k.granted(at(1500), "b")
			k.granted(at(0), "a")
			k.granted(at(600), "c")
		}, report.Order{AskedLater: 1}, 1500 * time.Millisecond},
		{"WhoGaveUpOvertakesNobody", func(k *lineOfKey) {
			k.begin()
			k.seen([]string{"a", "b"})
			k.granted(at(0), "b")
			k.begin()
			k.seen([]string{"c"})
			k.granted(at(0), "c")
		}, report.Order{Looks: 2, Followed: 2}, 0},
		{"APlaceLost", func(k *lineOfKey) {
			k.begin()
			k.seen([]string{"a", "b"})
			k.begin()
			k.seen([]string{"b", "a"})
			k.granted(at(0), "b")
			k.granted(at(0), "a")
		}, report.Order{Looks: 2, Followed: 2, LostPlace: 1}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := lineOfKey{places: make(map[string]int64)}
			tc.play(&k)
			require.Equal(t, tc.want, k.line)
			require.Equal(t, tc.taken, k.overtaken)
		})
	}
}

func TestWhatOfTheOrderIsJudged(t *testing.T) {
	for _, tc := range []struct {
		line   report.Order
		chaos  []string
		status int
		judged string
	}{
		{report.Order{}, nil, report.StatusOK, "queue and clock"},
		{report.Order{OutOfOrder: 1}, nil, report.StatusFailed, "queue and clock"},
		{report.Order{LostPlace: 1}, nil, report.StatusFailed, "queue and clock"},
		{report.Order{AskedLater: 1}, nil, report.StatusFailed, "queue and clock"},
		{report.Order{AskedLater: 1}, []string{config.ChaosPause}, report.StatusOK, "queue"},
		{report.Order{AskedLater: 1}, []string{config.ChaosClient}, report.StatusFailed, "queue and clock"},
		{report.Order{OutOfOrder: 1}, []string{config.ChaosPause}, report.StatusFailed, "queue"},
		{report.Order{OutOfOrder: 1, LostPlace: 1}, []string{config.ChaosKill}, report.StatusOK, "nothing"},
	} {
		o := orderCheck{keys: []lineOfKey{{line: tc.line}}}
		r := &report.Report{Contend: new(report.Contend)}
		o.addTo(r, tc.chaos)
		r.Settle()
		require.Equal(t, tc.status, r.Status, tc)
		require.Equal(t, tc.judged, r.Order.Judged)
	}
}

// A holder is told late if its deadline has passed and its lease does not say so.
func TestNoteLate(t *testing.T) {
	past, coming := time.Now().Add(-time.Second), time.Now().Add(time.Minute)
	for _, c := range []struct {
		lease believerOf
		late  bool
	}{
		{believerOf{coming, false}, false},
		{believerOf{past, true}, false},
		{believerOf{past, false}, true},
	} {
		late := make(map[int]bool)
		noteLate(late, 7, c.lease)
		require.Equal(t, c.late, late[7], c)
	}
}

type believerOf struct {
	deadline time.Time
	lost     bool
}

func (believerOf) OwnerID() string { return "me" }

func (b believerOf) Deadline() time.Time { return b.deadline }

func (b believerOf) Lost() bool { return b.lost }
