package engine

import (
	"crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// The command line's: texts, for flags that the testing package parses are refused with a page of its own.
//
//nolint:gochecknoglobals // the command line's
var (
	simText = map[string]*string{
		"SEED":    flag.String("sim.seed", "", "the seed of the one run, or of the first"),
		"TIME":    flag.String("sim.time", "", "how long to run one seed after the other; none: one run"),
		"OPS":     flag.String("sim.ops", "", "how many steps the callers of one run take at most: 400"),
		"KINDS":   flag.String("sim.kinds", "", "only these kinds of lock: lock,spin,fenced,read,write,fair"),
		"PROFILE": flag.String("sim.profile", "", "the profile of every seed, or none; else the seed says"),
		"WORKERS": flag.String("sim.workers", "", "how many worlds run at once: 1"),
	}
	simFlags = struct {
		trace, all     *bool
		shrink, yields *int
		summary        *string
	}{
		flag.Bool("sim.trace", false, "print the story of the one run"),
		flag.Bool("sim.all", false, "go on after a failure"),
		flag.Int("sim.shrink", 600, "how many runs to spend on a smaller failure"),
		flag.Int("sim.yields", -1, "of 1000 yield points, how many let others go first; -1: the seed says"),
		flag.String("sim.summary", "", "a file for the last line; else it is printed"),
	}
)

// simSettings is what is to be run.
type simSettings struct {
	seed    uint64
	forTime time.Duration // 0: one run
	ops     int
	kinds   []simKind
	profile string
	workers int
}

// readSimSettings reads the command line. Nothing is run if anything is wrong with it.
func readSimSettings() (simSettings, error) {
	set := simSettings{seed: randomSeed(), ops: 400, workers: 1, profile: *simText["PROFILE"]}
	refused := func(name, wanted string) error {
		return fmt.Errorf("make sim: %s=%s is not %s", name, *simText[name], wanted)
	}
	var err error
	if rest := flag.Args(); len(rest) > 0 {
		return set, fmt.Errorf("make sim: what is %q? Lists have no blanks", rest)
	}
	if text := *simText["SEED"]; text != "" {
		if set.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return set, refused("SEED", "a number from 0 to 18446744073709551615")
		}
	}
	if text := *simText["TIME"]; text != "" {
		if set.forTime, err = time.ParseDuration(text); err != nil || set.forTime <= 0 {
			return set, refused("TIME", "a time such as 60s or 10m")
		}
	}
	for name, n := range map[string]*int{"OPS": &set.ops, "WORKERS": &set.workers} {
		if text := *simText[name]; text != "" {
			if *n, err = strconv.Atoi(text); err != nil || *n < 1 {
				return set, refused(name, "a number from 1 on")
			}
		}
	}
	if set.forTime == 0 {
		set.workers = 1 // one run
	}
	if set.kinds, err = simKinds(*simText["KINDS"]); err != nil {
		return set, fmt.Errorf("make sim: KINDS=%s: %w", *simText["KINDS"], err)
	}
	names := []string{"", "none"}
	for _, f := range append(slices.Clone(simProfiles), simQueueProfile, simCountedProfile, simLeasedProfile, simGroupProfile, simRedProfile, simLingerProfile, simRefusedProfile, simCutOffProfile) {
		names = append(names, f.name)
	}
	if !slices.Contains(names, set.profile) {
		return set, refused("PROFILE", "one of "+strings.Join(names[1:], ", "))
	}
	return set, nil
}

// again is the command that runs a seed once more.
func (set *simSettings) again(seed uint64) string {
	text := fmt.Sprintf("make sim SEED=%d OPS=%d", seed, set.ops)
	for _, name := range []string{"KINDS", "PROFILE"} {
		if *simText[name] != "" {
			text += " " + name + "=" + *simText[name]
		}
	}
	if *simFlags.yields >= 0 {
		text += fmt.Sprintf(" (with -sim.yields=%d)", *simFlags.yields)
	}
	return text
}

// TestSim runs the simulation with fresh seeds: make sim. Its last line is read by scripts.
func TestSim(t *testing.T) {
	if *simText["SEED"] == "" && *simText["TIME"] == "" {
		t.Skip("make sim runs it")
	}
	set, err := readSimSettings()
	if err != nil {
		t.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if set.forTime > 0 {
		fmt.Printf("sim: from seed %d on, for %v\n", set.seed, set.forTime)
	}
	all := simTotal{set: set, next: set.seed, began: time.Now()}
	var wg sync.WaitGroup
	for range set.workers {
		wg.Go(func() { all.work(t) })
	}
	wg.Wait()
	verdict := "ok"
	if t.Failed() {
		verdict = "FAILED"
	}
	line := fmt.Sprintf("sim: seeds %d, ops %d, faults %d, ops/s %.0f, trace %016x, %s\n", all.seeds, all.ops, all.faults,
		float64(all.ops)/time.Since(all.began).Seconds(), all.hash, verdict)
	if *simFlags.summary == "" {
		fmt.Print(line)
	} else {
		require.NoError(t, os.WriteFile(*simFlags.summary, []byte(line), 0o600))
	}
}

// simTotal is what some worlds have done together.
type simTotal struct {
	set                simSettings
	mu                 sync.Mutex
	next               uint64
	began              time.Time
	seeds, ops, faults int
	hash               uint64 // of every seed's run, whatever their order
	over               bool
}

// work runs seeds until the time is over, or one has failed.
func (a *simTotal) work(t *testing.T) {
	var crew world.Crew
	defer crew.Close()
	for {
		a.mu.Lock()
		seed, over := a.next, a.over || a.seeds > 0 && time.Since(a.began) > a.set.forTime
		a.next++
		a.mu.Unlock()
		if over {
			return
		}
		p := drawProfile(seed, a.set.ops, a.set.kinds, a.set.profile)
		r := runSimWith(&crew, p, nil)
		a.mu.Lock()
		a.seeds, a.ops, a.faults, a.hash = a.seeds+1, a.ops+r.ops, a.faults+r.faults, a.hash^r.hash
		first := r.err != nil && !a.over
		a.over = a.over || r.err != nil && !*simFlags.all || a.set.forTime == 0
		a.mu.Unlock()
		if first {
			a.report(t, p, r)
		} else if *simFlags.trace && a.set.forTime == 0 {
			var text strings.Builder
			runSim(p, &text)
			fmt.Print(text.String())
		}
	}
}

// report tells of a failure: its seed, what is broken, and the story of the smallest plan that breaks the same.
func (a *simTotal) report(t *testing.T, p simPlan, r simReport) {
	if *simFlags.all {
		t.Errorf("seed %d: %.300v", p.seed, r.err)
		return
	}
	size := p.size()
	if *simFlags.shrink > 0 {
		p = shrink(p, ruleOf(r.err), *simFlags.shrink)
	}
	var text strings.Builder
	small := runSim(p, &text)
	t.Errorf("seed %d: %v\nThe same with %d of %d steps: %v\n%s\nRun it again: %s", p.seed, r.err, p.size(), size, small.err,
		text.String(), a.set.again(p.seed))
}

// simKinds reads a list of kinds; nil: the seed says.
func simKinds(list string) ([]simKind, error) {
	var kinds []simKind
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		at := slices.Index(simKindNames[:], name)
		if at < 0 {
			return nil, fmt.Errorf("no kind of lock is %q: lock, spin, fenced, read, write, fair", name)
		}
		kinds = append(kinds, simKind(at)) //nolint:gosec // in range
	}
	return kinds, nil
}

// The corpus: seeds that once failed, those of the even ones before there were profiles.
//
//nolint:gochecknoglobals // constant
var simSeeds = []uint64{
	580, 1052, 1125, 1454, 1577, 49947, 62185, 400012965, 400051220, 400020322, 400049023, 400050169, 99608317,
	4321846444236, 140234543316672, 907548, 177858167176217, 778108,
}

//nolint:gochecknoglobals // constant
var simProfileSeeds = map[string][]uint64{
	"healthy":  {1005285, 1012718, 8222243409802, 4496589239682},
	"slow":     {3011259394035},
	"extended": {1007259},
	"linger":   {780, 2135, 1082620979},
	"refused":  {80, 181, 895, 4960},
	"cutoff":   {5006, 6265},
	"queue":    {880714},
	"outage":   {8, 65, 161, 169, 949, 985, 1454, 1926},
	"forced":   {1733885054716, 1733885058668, 5907, 7020, 7417, 7659, 11515},
}

//nolint:gochecknoglobals // constant
var simEvenSeeds = []uint64{
	234, 259, 264, 291, 317, 341, 433, 545, 600, 642, 993, 20006, 20141, 20666, 54, 315, 2239, 2485, 62, 1172, 93, 344, 487, 709, 1641,
	4366, 701077, 1000996, 1002595, 1004576, 8000003,
}

// TestSimCorpus runs the corpus, and sees that a seed always runs the same.
func TestSimCorpus(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, seed := range simEvenSeeds {
		if r := runSim(drawEven(seed, 400, nil), nil); r.err != nil {
			t.Errorf("seed %d without a profile: %v", seed, r.err)
		}
	}
	// A copy of a change runs after the clock was stepped back behind its not-after.
	late := drawEven(7001008, 400, nil)
	late.yields = 700
	if r := runSim(late, nil); r.err != nil {
		t.Errorf("seed %d with %d yields: %v", late.seed, late.yields, r.err)
	}
	// A lease has expired when it is given back, and who is next was told just before it was granted.
	if r := runSim(drawPlan(2393598225308, 400, []simKind{simFair}), nil); r.err != nil {
		t.Errorf("seed 2393598225308 of fair locks: %v", r.err)
	}
	seeds := slices.Clone(simSeeds)
	for seed := range uint64(60) {
		seeds = append(seeds, seed)
	}
	var crew world.Crew
	defer crew.Close()
	for _, seed := range seeds {
		if r := runSimWith(&crew, drawPlan(seed, 400, nil), nil); r.err != nil {
			t.Errorf("seed %d: %v", seed, r.err)
		}
	}
	for profile, seeds := range simProfileSeeds {
		for _, seed := range seeds {
			if r := runSim(drawProfile(seed, 400, nil, profile), nil); r.err != nil {
				t.Errorf("seed %d of the profile %s: %v", seed, profile, r.err)
			}
		}
	}
}

// TestSimTellsTheSameStoryAgain: a seed is a program that can be run again.
func TestSimTellsTheSameStoryAgain(t *testing.T) {
	for seed := uint64(1000); seed < 1012; seed++ {
		var first, second strings.Builder
		one := runSim(drawPlan(seed, 300, nil), &first)
		procs, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(20)
		two := runSim(drawPlan(seed, 300, nil), &second)
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
		require.Equal(t, one.hash, two.hash, "seed %d", seed)
		require.True(t, first.String() == second.String(), "seed %d: two stories", seed)
		require.NoError(t, one.err, "seed %d", seed)
		require.Positive(t, first.Len())
	}
}

func randomSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) >> 20
}
