package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/witness"
)

// A planted is a scenario in which something is wrong from before the first measured round on.
type planted struct {
	scenario
	stage
	plant plant
}

// A plant makes it wrong, once or as long as it runs.
type plant struct {
	make  func(ctx context.Context, p *planted)
	again bool
}

func (p *planted) measure(ctx context.Context) (round, error) {
	p.plant.make(ctx, p)
	plantCtx, end := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for p.plant.again && plantCtx.Err() == nil {
			p.plant.make(plantCtx, p)
			nap(time.Millisecond)
		}
	}()
	defer func() {
		end()
		<-gone
	}()
	return p.scenario.measure(ctx)
}

// ledger is what the scenario keeps itself.
func (p *planted) ledger() *ledger {
	switch s := p.scenario.(type) {
	case *lockScenario:
		return s.load.ledger
	case *holdScenario:
		return s.held.ledger
	default:
		return s.(*contendScenario).contest.ledger
	}
}

// name is that of the scenario's first lock.
func (p *planted) name() string { return p.ledger().name(0) }

// server is a connection past the engine.
func (p *planted) server(ctx context.Context, command ...string) (string, error) {
	c := p.srv.client
	return c.Do(ctx, c.B().Arbitrary(command...).Build()).ToString()
}

//nolint:gochecknoglobals // constants in all but name
var (
	plantNothing = plant{make: func(context.Context, *planted) {}}
	// A second holder, whom the ledger has and the server has not.
	plantHolder = plant{make: func(_ context.Context, p *planted) { p.ledger().take(0, 99) }}
	// The same among processes: a holder in another one.
	plantElsewhere = plant{make: func(_ context.Context, p *planted) { p.witness.file().Take(0, 99) }}
	// The server loses everything, again and again.
	plantLosses = plant{make: func(ctx context.Context, p *planted) {
		_, _ = p.server(ctx, "FLUSHALL") // until the end of ctx
	}, again: true}
	// Something else has the name of a lock.
	plantSquatter = plant{make: func(ctx context.Context, p *planted) {
		_, _ = p.server(ctx, "SET", p.name(), "no lock") // until the end of ctx
	}, again: true}
)

// playPlanted is runCommand with a plant.
func playPlanted(t *testing.T, what plant, args ...string) *report {
	t.Helper()
	cfg, err := parseFlags(args)
	require.NoError(t, err)
	out, err := openOutputs(&cfg, io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { _ = out.close() })
	all := maps.Clone(scenarios())
	begin := all[cfg.scenario]
	all[cfg.scenario] = func(s stage) scenario { return &planted{begin(s), s, what} }
	var stderr bytes.Buffer
	s := session{cfg: &cfg, out: out, stderr: &stderr, scenarios: all}
	r, status := s.run(t.Context())
	require.NotNil(t, r, stderr.String())
	require.Equal(t, r.Status, status)
	return r
}

// Whatever is planted, in whichever scenario and API, ends in the exit status that says so.
func TestWhatIsPlantedEndsInItsStatus(t *testing.T) {
	needServer(t)
	for scenario, apis := range map[string][]string{
		"lock": {"async", "sync"}, "hold": {"async"}, "contend": {"async", "sync"},
		"fenced": {"async", "sync"}, "fair": {"async", "sync"}, "rw": {"async", "sync"},
	} {
		for _, api := range apis {
			for _, plant := range []struct {
				name   string
				plant  plant
				status int
				says   string
			}{
				{"Nothing", plantNothing, statusOK, ""},
				{"SecondHolder", plantHolder, statusViolation, "exclusion was violated"},
				{"HolderElsewhere", plantElsewhere, statusViolation, "exclusion between processes was violated"},
				{"Losses", plantLosses, statusFailed, "lost"},
				{"Squatter", plantSquatter, statusFailed, "wrong"},
			} {
				elsewhere := plant.name == "HolderElsewhere"
				if elsewhere && (scenario == "lock" || scenario == "hold" || scenario == "rw") { // they have no witness
					continue
				}
				t.Run(scenario+" "+api+" "+plant.name, func(t *testing.T) {
					t.Parallel()
					args := []string{
						"--scenario", scenario, "--addr", redistest.Run(t, redistest.Options{}).Addr(), "--json", filepath.Join(t.TempDir(), "r"),
						"--duration", "300ms", "--warmup", "0s", "--check-server", "off",
					}
					switch scenario {
					case "lock":
						args = append(args, "--api", api, "--clients", "2", "--keys", "2", "--inflight", "2")
					case "hold":
						args = append(args, "--locks", "50", "--lease", "1s")
					default:
						args = append(args, "--api", api, "--clients", "4", "--hold", "1ms")
					}
					if elsewhere {
						args = append(args, "--witness", filepath.Join(t.TempDir(), "w"))
					}
					r := playPlanted(t, plant.plant, args...)
					text := strings.Join(r.Failures, "\n")
					want := plant.status
					if plant.name == "Losses" && r.Violations > 0 { // the next one comes before the loser has let go
						want = statusViolation
					}
					require.Equal(t, want, r.Status, text)
					require.Contains(t, text, plant.says)
				})
			}
		}
	}
}

// What is wrong and nothing else, so that no other failure covers it.
func TestEachThingThatIsWrongIsEnough(t *testing.T) {
	empty := func() *report { return &report{Errors: map[string]int64{}, Failures: []string{}} }
	hold := func(change func(s *holdScenario)) func(*testing.T, *report) {
		return func(t *testing.T, r *report) {
			t.Helper()
			s := &holdScenario{stage: stage{cfg: &config{locks: 3}}, rec: newRecorder()}
			s.held = newHeldLocks(s.cfg, nil)
			change(s)
			require.NoError(t, s.finish(t.Context(), r))
		}
	}
	for name, c := range map[string]struct {
		what   func(t *testing.T, r *report)
		status int
		says   string
	}{
		"Nothing":    {func(*testing.T, *report) {}, statusOK, ""},
		"LostLeases": {func(_ *testing.T, r *report) { r.Lost = 1 }, statusFailed, "1 leases were lost"},
		"Errors": {func(_ *testing.T, r *report) {
			rec := newRecorder()
			rec.acquired(1)
			rec.freed(1)
			rec.failed(errors.New("something"))
			r.addRounds(&config{checkServer: "off"}, []round{{rec: rec, cost: cost{wall: time.Second}}})
		}, statusFailed, "1 operations failed"},
		"NotOnePair": {func(_ *testing.T, r *report) {
			r.addRounds(&config{checkServer: "off"}, []round{{rec: newRecorder(), cost: cost{wall: time.Second}}})
		}, statusFailed, "not one pair"},
		"FailedDisturbance": {func(_ *testing.T, r *report) {
			c := &chaos{cfg: &config{}, done: map[string]int64{"slots": 1}, failed: []string{"slots: no"}}
			c.addTo(r, nil)
		}, statusFailed, "chaos slots: no"},
		"NothingDisturbed": {func(_ *testing.T, r *report) {
			(&chaos{cfg: &config{}, done: map[string]int64{}}).addTo(r, nil)
		}, statusFailed, "nothing was disturbed"},
		"LostOnMastersThatLived": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, Lost: 2, LostElsewhere: 1}).addTo(r)
			r.Lost = 3
		}, statusFailed, "1 leases were lost"},
		"LostOnTheMasterThatDied": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, Lost: 2}).addTo(r)
			r.Lost = 2
		}, statusOK, ""},
		"ToldLate": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, ToldLate: 1}).addTo(r)
		}, statusFailed, "believed in beyond their deadline"},
		"NotRelocked": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", ReplacedAfter: 1, Locks: 5, NotRelocked: 1, problem: errors.New("no")}).addTo(r)
		}, statusFailed, "no"},
		"NobodyTookOver": {func(_ *testing.T, r *report) {
			(&failoverReport{Master: "m", Locks: 5}).addTo(r)
		}, statusFailed, "nobody took over"},
		"HoldMismatch": {hold(func(s *holdScenario) { s.beliefs.mismatches, s.beliefs.told = 1, []string{"so"} }), statusFailed, "1 of 3 locks are not"},
		"HoldLeftover": {hold(func(s *holdScenario) { s.left = 1 }), statusFailed, "1 locks are still on the server"},
		"HoldViolation": {hold(func(s *holdScenario) {
			s.held.ledger.take(0, 1)
			s.held.ledger.take(0, 2)
		}), statusViolation, "exclusion was violated 1 times"},
		"HoldLost": {hold(func(s *holdScenario) { s.beliefs.lost = 1 }), statusFailed, "1 leases were lost"},
		"ContendViolation": {func(t *testing.T, r *report) {
			s := newContendScenario(stage{cfg: &config{keys: 1, clients: 1}, engines: nil}).(*contendScenario)
			s.engines, s.contest = make([]*engine.Engine, 1), newContest(s.cfg, make([]lock, 1), func(int) string { return "k" })
			s.served = []int64{0}
			s.contest.ledger.take(0, 1)
			s.contest.ledger.take(0, 2)
			require.NoError(t, s.finish(t.Context(), r))
		}, statusViolation, "exclusion was violated 1 times"},
	} {
		t.Run(name, func(t *testing.T) {
			r := empty()
			c.what(t, r)
			r.settle()
			require.Equal(t, c.status, r.Status, r.Failures)
			require.Contains(t, strings.Join(r.Failures, "\n"), c.says)
		})
	}
}

// A violation that another process saw is one of this run, too, and so is a process that died.
func TestWhatIsWrongElsewhereIsWrongHere(t *testing.T) {
	w, err := witness.Open(filepath.Join(t.TempDir(), "w"), witness.Options{Keys: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Leave()) })
	for _, c := range []struct {
		of     witnessProcess
		kills  []string
		status int
	}{
		{witnessProcess{}, nil, statusOK},
		{witnessProcess{Violations: 1}, nil, statusViolation},
		{witnessProcess{Gone: true}, nil, statusFailed},
		{witnessProcess{Gone: true}, []string{"client"}, statusOK},
	} {
		b := &bystander{cfg: &config{chaos: c.kills}, w: w}
		r, out := &report{Errors: map[string]int64{}}, &witnessReport{}
		out.add(c.of)
		b.blame(r, out)
		r.settle()
		require.Equal(t, c.status, r.Status, "%+v: %v", c, r.Failures)
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

func (believerOf) OwnerID() string       { return "me" }
func (b believerOf) Deadline() time.Time { return b.deadline }
func (b believerOf) Lost() bool          { return b.lost }
