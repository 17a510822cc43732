package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/scenario"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// A plant is something wrong, which a scenario has to notice.
type plant struct {
	name string
	what string // of the six that a run may show
	// spoil makes it wrong, again and again while the scenario measures. It answers when that has taken hold.
	spoil func(ctx context.Context, p *planted) (done bool, err error)
	// before makes it wrong just before loadgen's own client asks the server with such a command.
	before string

	status int
	says   string            // a pattern: one of the failures is it
	beside string            // a pattern: what else may be among them, as it follows from the same
	args   func() []string   // beside those of the scenario
	alone  bool              // each key has one caller
	absent map[string]absent // by scenario: where it cannot be planted
}

// An absent is why a scenario has no such plant, and the output that proves it; "": there is nothing to run.
type absent struct {
	reason, says string
	status       int
}

// A planted is a scenario with a plant in it.
type planted struct {
	scenario.Scenario
	scenario.Stage
	plant *plant
	err   error
	done  atomic.Bool

	resets atomic.Int64 // of countsLess
}

// moreRounds is how often a scenario measures until the plant has taken hold.
const moreRounds = 40

func (p *planted) Measure(ctx context.Context) (r report.Round, err error) {
	for range moreRounds {
		r, err = p.measureOnce(ctx)
		if p.Cfg.Scenario == "hold" || err != nil || p.done.Load() {
			return r, err
		}
	}
	return r, errors.New("the plant did not take hold")
}

func (p *planted) measureOnce(ctx context.Context) (report.Round, error) {
	if p.plant.spoil == nil { // what comes behind the run is to find one: on a busy machine a short one may come to nothing
		r, err := p.Scenario.Measure(ctx)
		p.done.Store(r.Rec != nil && r.Rec.Released > 0)
		return r, err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	begun, gone := make(chan struct{}), make(chan struct{})
	spoilCtx, stop := context.WithCancel(ctx)
	go func() { // ends with stop
		defer close(gone)
		for first := true; spoilCtx.Err() == nil; first = false {
			done, err := p.plant.spoil(spoilCtx, p)
			if spoilCtx.Err() == nil && err != nil {
				p.err = err
			}
			if done {
				p.done.Store(true)
			}
			if first {
				close(begun)
			}
			<-time.After(time.Millisecond)
		}
	}()
	<-begun
	r, err := p.Scenario.Measure(ctx)
	stop()
	<-gone
	return r, errors.Join(err, p.err)
}

// ledger is what the scenario keeps itself.
func (p *planted) ledger() *meter.Ledger {
	return scenario.LedgerOf(p.Scenario)
}

// server sends a command past the engine, for each of the names if it has a place for one.
func (p *planted) server(ctx context.Context, command ...string) (sum int64, err error) {
	c := p.Srv.Client
	at := slices.IndexFunc(command, func(part string) bool { return strings.Contains(part, "NAME") })
	for _, name := range p.ledger().Names() {
		one := slices.Clone(command)
		if at >= 0 {
			one[at] = strings.Replace(one[at], "NAME", name, 1)
		}
		reply := c.Do(ctx, c.B().Arbitrary(one...).Build())
		if err := reply.Error(); err != nil {
			return sum, err
		}
		n, _ := reply.AsInt64()
		if sum += n; at < 0 {
			break
		}
	}
	return sum, nil
}

// countsLess has the server count from 0 again, but for the command by which loadgen would see that. In one write: it may
// look at any time.
func countsLess(ctx context.Context, p *planted) (bool, error) {
	b := p.Srv.Client.B()
	cmds := rueidis.Commands{b.ConfigResetstat().Build()}
	for range 20 * p.resets.Add(1) { // more than it had counted the last time
		cmds = append(cmds, b.Echo().Message("as often as before").Build())
	}
	for _, reply := range p.Srv.Client.DoMulti(ctx, cmds...) {
		if err := reply.Error(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sends is a plant that the server has from a command.
func sends(command ...string) func(context.Context, *planted) (bool, error) {
	return func(ctx context.Context, p *planted) (bool, error) {
		_, err := p.server(ctx, command...)
		return true, err
	}
}

// hits is the same where the command has to find something.
func hits(command ...string) func(context.Context, *planted) (bool, error) {
	return func(ctx context.Context, p *planted) (bool, error) {
		n, err := p.server(ctx, command...)
		return n > 0, err
	}
}

// A spoiledClient is loadgen's own client of the server, before whose questions something happens.
type spoiledClient struct {
	rueidis.Client
	before string
	spoil  func(ctx context.Context)
}

func (c *spoiledClient) DoMulti(ctx context.Context, all ...rueidis.Completed) []rueidis.RedisResult {
	if len(all) > 0 && all[0].Commands()[0] == c.before {
		c.spoil(ctx)
	}
	return c.Client.DoMulti(ctx, all...)
}

// spoiled puts the plant into a scenario.
func (pl *plant) spoiled(begin func(scenario.Stage) scenario.Scenario) func(scenario.Stage) scenario.Scenario {
	return func(s scenario.Stage) scenario.Scenario {
		own := *pl
		p := &planted{Scenario: begin(s), Stage: s, plant: &own}
		if own.before != "" {
			spoil, inner := own.spoil, p.Srv.Client
			own.spoil = nil
			p.Srv.Client = &spoiledClient{inner, own.before, func(ctx context.Context) { _, _ = spoil(ctx, p) }}
		}
		return p
	}
}

// plants are those of the table. What the scenario hold asks the server itself, the others read from its counters.
func plants(dir string) []*plant {
	witnessed := func() []string { return []string{"--witness", filepath.Join(dir, "w-"+config.RandomID())} }
	disturbed := func() []string { return []string{"--chaos", config.ChaosFlush, "--chaos-every", "20ms"} }
	unwitnessed := absent{"the flag is refused", "--witness has no effect", report.StatusUsage}
	several := absent{"a turn gives some locks back while it waits for others", "not checked: who waits for several locks", report.StatusOK}
	uncounted := absent{"readers of one engine share what the server counts", "not checked: readers of one engine share", report.StatusOK}
	shared := absent{reason: "nobody holds it alone: TooManyHeld, TooManyHeldElsewhere, PermitsFromNowhere, LetInEarly, NeverOpened"}
	unleased := absent{reason: "a permit has no lease: PermitsLost"}
	beside := absent{reason: "its leases do not stand under its name: LostWhileHeld"}
	unjudged := absent{"one command takes permits for many callers", "not checked: one command takes permits", report.StatusOK}
	uncompared := absent{"they are not taken by the commands that are counted", "not checked: leased permits are not taken", report.StatusOK}
	uncounting := absent{"they are not taken by the commands that are counted", "not checked: latches are not taken", report.StatusOK}
	own := absent{reason: "each key has one caller: nobody else could be granted it"}
	all := []*plant{
		{name: "Nothing", status: report.StatusOK},
		// Violations: of the ledger, between processes, and of what the server was asked for.
		{
			name: "SecondHolder", what: "violation", status: report.StatusViolation,
			says:   "exclusion was violated",
			beside: "was (granted|released)",
			spoil: func(_ context.Context, p *planted) (bool, error) {
				if !p.done.Load() { // the second time it would be the plant that is caught
					p.ledger().Take(0, 99)
				}
				return true, nil
			},
			absent: map[string]absent{config.KindSemaphore: shared, config.KindPermits: shared, config.KindLatch: shared},
		},
		{
			name: "HolderElsewhere", what: "violation", status: report.StatusViolation,
			says: "exclusion between processes was violated", beside: "holds it|has it|caller",
			spoil: func(_ context.Context, p *planted) (bool, error) {
				if !p.done.Load() { // the second time it would be the plant that is caught
					p.Witness.File().Take(0, 99)
				}
				return true, nil
			},
			args: witnessed, absent: map[string]absent{"lock": unwitnessed, "hold": unwitnessed, "rw": unwitnessed, config.KindSemaphore: shared, config.KindPermits: shared, config.KindLatch: shared},
		},
		{
			name: "Ghost", what: "violation", status: report.StatusViolation,
			says: "some lock was granted without being taken", beside: "releases, but the server ran",
			spoil: countsLess, absent: map[string]absent{"rw": uncounted, "multi": several, config.KindSemaphore: unjudged, config.KindPermits: uncompared, config.KindLatch: uncounting},
		},
		// The server grants to another what somebody holds.
		{
			name: "GrantedTwice", what: "violation", status: report.StatusViolation,
			says: "exclusion was violated", beside: ".",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				n, err := p.server(ctx, "DEL", "NAME")
				if err == nil && n > 0 {
					_, err = p.server(ctx, "PUBLISH", "redisson_lock__channel:{"+p.ledger().Name(0)+"}", "0")
				}
				return p.ledger().Violations.Load() > 0, err
			},
			absent: map[string]absent{"lock": own, "hold": own, config.KindSemaphore: shared, config.KindPermits: shared, config.KindLatch: shared},
		},
		{
			name: "Losses", what: "loss", status: report.StatusFailed,
			says: "leases were lost", beside: "operations failed: lost|not on the server|not one pair",
			spoil: hits("DEL", "NAME"), alone: true, absent: map[string]absent{config.KindSemaphore: unleased, config.KindPermits: beside, config.KindLatch: shared},
		},
		{
			name: "Squatter", what: "error", status: report.StatusFailed,
			says: "operations failed: .*wrong", beside: "lost|not one pair|still on the server|ask how many permits", spoil: sends("SET", "NAME", "no lock"),
		},
		{
			name: "Mismatch", what: "mismatch", status: report.StatusFailed,
			says: "releases, but the server ran [0-9]+ HDEL", spoil: sends("HDEL", "nothing", "of it"),
			absent: map[string]absent{"hold": {reason: "it asks for every lock itself: NoExpiry"}, "rw": uncounted, "multi": several, config.KindSemaphore: unjudged, config.KindPermits: uncompared, config.KindLatch: uncounting},
		},
		{
			name: "Leftover", what: "leftover", status: report.StatusFailed,
			says: "locks are still on the server", spoil: sends("HSET", "NAME", "me", "1"), before: "EXISTS",
		},
		{
			name: "NobodyMayLook", what: "leftover", status: report.StatusFailed,
			says: "look for keys that are left: NOPERM", spoil: sends("ACL", "SETUSER", "default", "-exists"), before: "EXISTS",
		},
		{
			name: "FailedDisturbance", what: "disturbance", status: report.StatusFailed,
			says: "^chaos script-flush: NOPERM", beside: "nothing was disturbed",
			spoil: sends("ACL", "SETUSER", "default", "-script|flush"), args: disturbed,
		},
	}
	return slices.Concat(all, plantsOfOne(), plantsOfSemaphores(witnessed), plantsOfLatches())
}

// only says why no scenario but one has a plant.
func only(one, reason string) map[string]absent {
	all := map[string]absent{}
	for _, name := range scenario.Names() {
		if name != one {
			all[name] = absent{reason: reason}
		}
	}
	return all
}

// plantsOfOne are those of a check that one scenario alone has.
func plantsOfOne() []*plant {
	return []*plant{
		{
			name: "NoExpiry", what: "mismatch", status: report.StatusFailed,
			says: "locks are not on the server what the engine believes", beside: "has no expiry",
			spoil: hits("PERSIST", "NAME"), before: "HGETALL",
			absent: only("hold", "it keeps no lock to be asked for: Mismatch"),
		},
		{
			name: "HeldTwice", what: "mismatch", status: report.StatusFailed,
			says: "locks are not on the server what the engine believes", beside: "held by map|still on the server|acquiring commands",
			spoil: sends("HSET", "NAME", "another:1", "1"), before: "HGETALL",
			absent: only("hold", "it keeps no lock to be asked for: Mismatch"),
		},
		{
			name: "NobodyMayCompare", what: "mismatch", status: report.StatusFailed,
			says: "compare with the server: NOPERM", spoil: sends("ACL", "SETUSER", "default", "-hgetall"), before: "HGETALL",
			absent: only("hold", "it keeps no lock to be asked for"),
		},
		{
			name: "TokensRepeat", what: "violation", status: report.StatusViolation,
			says: "tokens did not rise", beside: "was granted with token",
			spoil: func(ctx context.Context, p *planted) (bool, error) { // the counter goes back, again and again
				const ahead = 1 << 52 // of the time
				was, err := p.server(ctx, "GETSET", "redisson_lock_token:{NAME}", strconv.Itoa(ahead))
				if rueidis.IsRedisNil(err) {
					err = nil
				}
				return was > ahead, err
			},
			absent: only("fenced", "its locks have no tokens"),
		},
		{
			name: "PlaceLost", what: "violation", status: report.StatusFailed,
			says: "callers lost their place", beside: "were served after one who|releases, but the server ran [0-9]+ PUBLISH",
			spoil: func(ctx context.Context, p *planted) (bool, error) {
				c, list := p.Srv.Client, "redisson_lock_queue:{"+p.ledger().Name(0)+"}"
				err := c.Do(ctx, c.B().Arbitrary("RPOPLPUSH", list, list).Build()).Error()
				if rueidis.IsRedisNil(err) {
					return false, nil
				}
				return scenario.LostPlaces(p.Scenario) > 0, err
			},
			absent: only("fair", "its locks keep no queue"),
		},
	}
}

// planting are the arguments of a scenario that is short, and cheap enough for many at once.
func planting(scenario, api string, pl *plant) []string {
	args := []string{
		"--scenario", scenario, "--api", api, "--json", "-", "--duration", "150ms", "--warmup", "0s", "--check-server", "on",
	}
	switch {
	case scenario == "lock":
		args = append(args, "--clients", "2", "--keys", "2", "--engines", "2", "--rate", "2000")
		if api == "async" {
			args = append(args, "--inflight", "2")
		}
	case scenario == "hold":
		args = append(args, "--locks", "20")
	case scenario == "multi" && pl.alone:
		args = append(args, "--clients", "1", "--keys", "4", "--multi-names", "2", "--hold", "2ms")
	case scenario == "multi":
		args = append(args, "--clients", "6", "--engines", "2", "--keys", "4", "--multi-names", "2", "--hold", "2ms")
	case pl.alone:
		args = append(args, "--clients", "4", "--keys", "4", "--hold", "2ms")
	default:
		args = append(args, "--clients", "6", "--engines", "2", "--hold", "2ms")
	}
	if scenario == config.KindSemaphore || scenario == config.KindPermits {
		args = append(args, "--permits", "3", "--take", "2")
	}
	if scenario == "rw" {
		args = append(args, "--read-share", "0.3")
	}
	if pl.args != nil {
		args = append(args, pl.args()...)
	}
	return args
}

// requirePlanted runs a scenario with a plant and asserts its end.
func requirePlanted(t *testing.T, name, api string, pl *plant) {
	t.Helper()
	all, args := maps.Clone(scenario.All()), planting(name, api, pl)
	all[name] = pl.spoiled(all[name])
	if !slices.Contains(args, "--chaos") { // which wants servers of its own
		args = append(args, "--addr", redistest.Run(t, redistest.Options{}).Addr())
	}
	var stdout, stderr bytes.Buffer
	status := runOneOf(t.Context(), all, append([]string{"run"}, args...), &stdout, &stderr)
	if out, ok := pl.absent[name]; ok {
		require.Equal(t, out.status, status, "%s%s", stdout.String(), stderr.String())
		require.Contains(t, stdout.String()+stderr.String(), out.says)
		return
	}
	var r struct {
		Status   int      `json:"status"`
		Failures []string `json:"failures"`
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), "%s%s", stdout.String(), stderr.String())
	require.Equal(t, pl.status, status, strings.Join(r.Failures, "\n"))
	require.Equal(t, pl.status, r.Status)
	if pl.status == report.StatusOK {
		require.Empty(t, r.Failures)
		return
	}
	require.Contains(t, stderr.String(), "loadgen: "+r.Failures[0], "the first failure is told beside the report")
	says, beside := regexp.MustCompile(pl.says), regexp.MustCompile(pl.says)
	if pl.beside != "" {
		beside = regexp.MustCompile(pl.beside)
	}
	require.True(t, slices.ContainsFunc(r.Failures, says.MatchString), "%s: %q", pl.says, r.Failures)
	for _, one := range r.Failures {
		require.True(t, says.MatchString(one) || beside.MatchString(one), "%s is not what was planted", one)
	}
}

// Whatever is planted, in whichever scenario and API, ends in the exit status that says so. Each of scenario × API ×
// plant is run, or named with the reason why there is nothing to run. The race detector gets one API of each: what it
// looks for is in both.
func TestWhatIsPlantedEndsInItsStatus(t *testing.T) {
	needServer(t)
	all := plants(t.TempDir())
	apis := []string{"async", "sync"}
	missing := map[string]bool{} // scenario and what, until one such plant is in it
	for _, scenario := range scenario.Names() {
		for _, what := range []string{"violation", "loss", "error", "mismatch", "leftover", "disturbance"} {
			missing[scenario+" "+what] = true
		}
	}
	for i, scenario := range scenario.Names() {
		for j, pl := range all {
			out, isAbsent := pl.absent[scenario]
			if !isAbsent {
				delete(missing, scenario+" "+pl.what)
			}
			require.Equal(t, isAbsent, out.reason != "", "%s: %s is planted, or there is a reason why not", scenario, pl.name)
			for k, api := range apis {
				if isAbsent && out.says == "" || testkit.Race && (i+j+k)%len(apis) != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %s", scenario, api, pl.name), func(t *testing.T) {
					t.Parallel()
					requirePlanted(t, scenario, api, pl)
				})
			}
		}
	}
	// Its readers share what the server counts, and it holds nothing that the server could be asked for.
	require.Equal(t, map[string]bool{"rw mismatch": true, "multi mismatch": true}, missing)
	for _, pl := range all {
		require.Subset(t, scenario.Names(), slices.Collect(maps.Keys(pl.absent)), pl.name)
	}
}
