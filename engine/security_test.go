package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// aclBlocks reads the rights that docs/SECURITY.md lists, by the name of their block.
func aclBlocks(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "SECURITY.md"))
	require.NoError(t, err)
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)```acl ([a-z-]+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = strings.Fields(m[2])
	}
	return blocks
}

// isRight reports whether a rule gives something that can be missed.
func isRight(rule string) bool { return strings.ContainsAny(rule[:1], "+~&") }

// without returns the rules but for one.
func without(rules []string, rule string) []string {
	return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
}

// aclUser makes a user of these rules on the servers, and returns how an engine becomes it.
func aclUser(t *testing.T, name string, rules []string, servers ...*redistest.Server) func(*engine.Config) {
	t.Helper()
	for _, s := range servers {
		s.Do(t, append([]string{"ACL", "SETUSER", name}, rules...)...)
	}
	return func(cfg *engine.Config) { cfg.Username, cfg.Password = name, "secret" }
}

// refusedTo lists what the servers have refused to a user: commands, keys and channels.
func refusedTo(t *testing.T, name string, servers ...*redistest.Server) (what []string) {
	t.Helper()
	for _, s := range servers {
		lines := strings.Split(s.Do(t, "ACL", "LOG", "10000"), "\n")
		object := ""
		for i := 0; i+1 < len(lines); i++ {
			switch lines[i] {
			case "object":
				object = lines[i+1]
			case "username":
				if lines[i+1] == name {
					what = append(what, object)
				}
			}
		}
	}
	return what
}

// missed reports whether the refusals are those of a missing right.
func missed(rule string, refused []string) bool {
	return slices.ContainsFunc(refused, func(object string) bool {
		switch rule[0] {
		case '~':
			return strings.HasPrefix(object, strings.TrimSuffix(rule[1:], "*"))
		case '&':
			return strings.HasPrefix(object, strings.TrimSuffix(rule[1:], "*"))
		default:
			return object == rule[1:]
		}
	})
}

// An aclSuite does everything that a Lock can, and collects what went wrong. It goes on after an error.
type aclSuite struct {
	ctx    context.Context
	prefix string
	errs   []error
}

func (s *aclSuite) do(err error) bool {
	if err != nil {
		s.errs = append(s.errs, err)
	}
	return err == nil
}

func (s *aclSuite) name(parts ...string) string { return s.prefix + strings.Join(parts, "") }

// locks takes and gives back, many at once and one in every other way.
func (s *aclSuite) locks(e *engine.Engine) {
	s.do(e.Ping(s.ctx))
	var many []*engine.Future[*engine.Lease]
	for i := range 300 { // some of them travel together
		many = append(many, e.Lock(s.name("many:", fmt.Sprint(i))).AcquireAsync(s.ctx))
	}
	var given []*engine.Future[struct{}]
	for _, f := range many {
		if ls, err := f.Await(s.ctx); s.do(err) {
			given = append(given, ls.ReleaseAsync())
		}
	}
	for _, f := range given {
		_, err := f.Await(s.ctx)
		s.do(err)
	}
	owner := engine.WithOwner(s.ctx, engine.NewOwner())
	if outer, err := e.Lock(s.name("nested")).Acquire(owner); s.do(err) {
		if inner, err := e.Lock(s.name("nested")).Acquire(owner); s.do(err) {
			s.do(inner.Release(s.ctx))
		}
		s.do(outer.Release(s.ctx))
	}
	if fixed, err := e.Lock(s.name("fixed"), engine.FixedLease(time.Second)).Acquire(s.ctx); s.do(err) {
		s.do(fixed.Extend(s.ctx, time.Minute))
		s.do(fixed.Release(s.ctx))
	}
	if ls, err := e.Lock(s.name("renewed"), engine.WatchdogLease(2*time.Second)).Acquire(s.ctx); s.do(err) {
		first := ls.Deadline()
		for s.ctx.Err() == nil && !ls.Lost() && !ls.Deadline().After(first.Add(100*time.Millisecond)) {
			testkit.LastUntil(time.Now().Add(5 * time.Millisecond))
		}
		s.do(ls.Release(s.ctx))
	}
	if _, err := e.Lock(s.name("forced")).Acquire(s.ctx); s.do(err) {
		_, err = e.Lock(s.name("forced")).Inspect(s.ctx)
		s.do(err)
		_, err = e.Lock(s.name("forced")).ForceRelease(s.ctx)
		s.do(err)
	}
}

// told begins to wait for a lock, and returns when the waiter was told that it is held, or has its end.
func (s *aclSuite) told(l *engine.Lock) *engine.Future[*engine.Lease] {
	f := l.AcquireAsync(s.ctx)
	for engine.Told(l) == 0 {
		select {
		case <-f.Done():
			return f
		case <-time.After(2 * time.Millisecond):
		}
	}
	return f
}

// waits lets two engines take turns, on names with and without a brace.
func (s *aclSuite) waits(a, b *engine.Engine) {
	for _, name := range []string{s.name("waited"), s.name("{waited}")} {
		ls, err := a.Lock(name).Acquire(s.ctx)
		if !s.do(err) {
			continue
		}
		f := s.told(b.Lock(name))
		s.do(ls.Release(s.ctx))
		if got, err := f.Await(s.ctx); s.do(err) {
			s.do(got.Release(s.ctx))
		}
	}
}

// run opens two engines, uses them, and closes them when nothing lingers any more, or enough is enough.
func (s *aclSuite) run(addr string, enough func() bool, change ...func(*engine.Config)) {
	cfg := engine.Config{Addrs: []string{addr}}
	engine.AskFrom(&cfg, 2)
	for _, c := range change {
		c(&cfg)
	}
	var engines []*engine.Engine
	for range 2 {
		if e, err := engine.Open(s.ctx, cfg); s.do(err) {
			engines = append(engines, e)
		}
	}
	if len(engines) == 2 {
		s.locks(engines[0])
		s.waits(engines[0], engines[1])
		for !enough() && s.ctx.Err() == nil && channelsOf(engines[1]) > 0 {
			testkit.LastUntil(time.Now().Add(20 * time.Millisecond))
		}
	}
	for _, e := range engines {
		s.do(e.Close(s.ctx))
	}
}

// channelsOf counts the channels that an engine is subscribed to.
func channelsOf(e *engine.Engine) (n int64) {
	for _, node := range e.Stats().Nodes {
		n += node.Subscriptions.Channels
	}
	return n
}

// C-159: the documented rights are enough, and none of them is too much.
func TestC159_DocumentedRightsAreEnoughAndEachIsNeeded(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--acllog-max-len", "10000"}})
	blocks := aclBlocks(t)
	rules := blocks["lock"]
	require.NotEmpty(t, rules)
	all := &aclSuite{ctx: testkit.Limited(t), prefix: "app:all:"}
	all.run(s.Addr(), func() bool { return false }, aclUser(t, "all", rules, s))
	require.NoError(t, errors.Join(all.errs...))
	require.Empty(t, refusedTo(t, "all", s), "with the documented rights nothing is refused")
	require.Empty(t, s.Keys(t))

	var wg sync.WaitGroup
	for i, rule := range rules {
		if !isRight(rule) {
			continue
		}
		user := fmt.Sprint("without", i)
		as := aclUser(t, user, without(rules, rule), s)
		enough := func() bool { return missed(rule, refusedTo(t, user, s)) }
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), testkit.TooLong)
			defer cancel()
			part := &aclSuite{ctx: ctx, prefix: fmt.Sprint("app:", i, ":")}
			part.run(s.Addr(), enough, as)
			if !enough() {
				t.Errorf("nothing is refused without %s; refused was %q", rule, refusedTo(t, user, s))
			}
		})
	}
	wg.Wait()
	require.Empty(t, s.ImmortalKeys(t), "whatever is refused")
}

func TestC159_RightsForDatabasesAndReplicas(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--acllog-max-len", "10000"}})
	blocks := aclBlocks(t)
	inDB := func(cfg *engine.Config) { cfg.DB = 3 }
	with := aclUser(t, "with", slices.Concat(blocks["lock"], blocks["database"], blocks["replicas"]), s)
	lacking := aclUser(t, "lacking", blocks["lock"], s)

	e := testkit.Open(t, s.Addr(), with, inDB)
	_, err := e.Lock("app:a", engine.WaitReplicas(1, 20*time.Millisecond)).Acquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrNotReplicated, "asked for, and there is no replica")
	testkit.Release(t, testkit.Acquire(t, e.Lock("app:a")))
	require.Empty(t, refusedTo(t, "with", s))
	testkit.Finish(t, s, e)

	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}, DB: 3, Username: "lacking", Password: "secret"})
	require.Error(t, err)
	require.Equal(t, []string{"select"}, slices.Compact(refusedTo(t, "lacking", s)))
	e = testkit.Open(t, s.Addr(), lacking)
	ctx, cancel := context.WithTimeout(testkit.Limited(t), 2*time.Second)
	defer cancel()
	_, err = e.Lock("app:a", engine.WaitReplicas(1, 20*time.Millisecond)).Acquire(ctx)
	require.Error(t, err)
	require.Contains(t, refusedTo(t, "lacking", s), "wait")
	testkit.Finish(t, s, e)
}

func TestC159_RightsOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.RunCluster(t, 3, 0, "--acllog-max-len", "10000")
	blocks := aclBlocks(t)
	rules := slices.Concat(blocks["lock"], blocks["cluster"])
	// what uses the rights of a cluster: waiting, batches, and a slot that is on its way.
	use := func(name string, ctx context.Context, enough func() bool) *aclSuite {
		s := &aclSuite{ctx: ctx, prefix: "app:" + name + ":"}
		s.run(c.Masters[0].Addr(), enough, func(cfg *engine.Config) {
			cfg.Username, cfg.Password, cfg.Publish = name, "secret", engine.PublishMasters
		})
		if enough() {
			return s
		}
		e, err := engine.Open(ctx, engine.Config{Addrs: c.Addrs(), Username: name, Password: "secret"})
		if !s.do(err) {
			return s
		}
		moving := s.name("moving")
		to := testkit.AnotherMaster(t, c, slot.Of(moving))
		move, err := c.BeginMove(testkit.Limited(t), slot.Of(moving), to)
		require.NoError(t, err)
		ls, err := e.Lock(moving).TryAcquire(ctx)
		if s.do(err) {
			s.do(ls.Release(ctx))
		}
		require.NoError(t, move.Keys(testkit.Limited(t)))
		require.NoError(t, move.Finish(testkit.Limited(t)))
		s.do(e.Close(ctx))
		return s
	}
	aclUser(t, "all", rules, c.Masters...)
	require.NoError(t, errors.Join(use("all", testkit.Limited(t), func() bool { return false }).errs...))
	require.Empty(t, refusedTo(t, "all", c.Masters...))
	for i, rule := range blocks["cluster"] {
		name := fmt.Sprint("without", i)
		aclUser(t, name, without(rules, rule), c.Masters...)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		refused := func() bool { return missed(rule, refusedTo(t, name, c.Masters...)) }
		use(name, ctx, refused)
		cancel()
		require.True(t, refused(), "without %s: %q", rule, refusedTo(t, name, c.Masters...))
	}
}

func TestC159_RightsWithSentinels(t *testing.T) {
	t.Parallel()
	c := redistest.RunSentinel(t, 1, 1)
	blocks := aclBlocks(t)
	servers := append([]*redistest.Server{c.Master}, c.Replicas...)
	open := func(name string) (*engine.Engine, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return engine.Open(ctx, engine.Config{
			Addrs: c.Addrs(), MasterName: redistest.MasterName, Username: name, Password: "secret",
			SentinelUsername: name, SentinelPassword: "secret",
		})
	}
	master := slices.Concat(blocks["lock"], blocks["sentinel-master"])
	for i, rule := range append([]string{"nothing"}, blocks["sentinel"]...) {
		if rule != "nothing" && !isRight(rule) {
			continue
		}
		name := fmt.Sprint("user", i)
		aclUser(t, name, master, servers...)
		aclUser(t, name, without(blocks["sentinel"], rule), c.Sentinels...)
		e, err := open(name)
		if rule == "nothing" {
			require.NoError(t, err)
			testkit.Release(t, testkit.Acquire(t, e.Lock("app:a")))
			require.NoError(t, e.Ping(testkit.Limited(t)))
		}
		testkit.Eventually(t, "without "+rule, func() bool {
			refused := refusedTo(t, name, append(c.Sentinels, servers...)...)
			return rule == "nothing" && len(refused) == 0 || missed(rule, refused)
		})
		if err == nil {
			require.NoError(t, e.Close(testkit.Limited(t)))
		}
	}
	aclUser(t, "norole", blocks["lock"], servers...)
	aclUser(t, "norole", blocks["sentinel"], c.Sentinels...)
	e, err := open("norole")
	require.True(t, missed("+role", refusedTo(t, "norole", servers...)))
	if err == nil {
		require.NoError(t, e.Close(testkit.Limited(t)))
	}
}

// The fair lock's rights on their own, with a waiter of Redisson's in its queue whose time is nearly over: nothing is
// refused with them, and without those to pubsub nothing fails.
func TestC159_RightsOfAFairLockThatRedissonShares(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--acllog-max-len", "10000"}})
	blocks := aclBlocks(t)
	rules := slices.Concat(blocks["lock"], blocks["families"])
	asks := []string{"+pubsub|numsub", "+pubsub|shardnumsub"}
	for user, rules := range map[string][]string{"all": rules, "without": without(without(rules, asks[0]), asks[1])} {
		as := aclUser(t, user, rules, s)
		a, b := testkit.Open(t, s.Addr(), as), testkit.Open(t, s.Addr(), as)
		name := "app:" + user
		held := testkit.Acquire(t, a.FairLock(name).Lock)
		const thread = "99999999-9999-4999-8999-999999999999:7"
		s.Do(t, "RPUSH", slot.FairQueue(name), thread)
		s.Do(t, "ZADD", slot.FairTimeouts(name), fmt.Sprint(time.Now().Add(1500*time.Millisecond).UnixMilli()), thread)
		ours := func() int {
			return len(slices.DeleteFunc(strings.Fields(s.Do(t, "LRANGE", slot.FairQueue(name), "0", "-1")), func(f string) bool { return f == thread }))
		}
		first := b.FairLock(name).AcquireAsync(testkit.Limited(t))
		testkit.Eventually(t, "it stands in the queue", func() bool { return ours() == 1 })
		second := a.FairLock(name).AcquireAsync(testkit.Limited(t)) // behind the first, whichever of them is quicker
		testkit.Eventually(t, "both stand there, and its time is over", func() bool { return ours() == 2 && s.Do(t, "LLEN", slot.FairQueue(name)) == "2" })
		testkit.Release(t, held)
		for _, f := range []*engine.Future[*engine.Lease]{first, second} {
			ls, err := f.Await(testkit.Limited(t))
			require.NoError(t, err)
			testkit.Release(t, ls)
		}
		refused := refusedTo(t, user, s)
		require.Equal(t, user == "without", slices.Contains(refused, "pubsub|numsub"), "%v", refused)
		require.Empty(t, slices.DeleteFunc(refused, func(what string) bool { return user == "without" && what == "pubsub|numsub" }))
		s.Do(t, "DEL", slot.FairNotes(name))
	}
}

// rightsTo lists the rights to a command of a script. The part of PUBSUB that it asks for is in a variable.
func rightsTo(script, command string) []string {
	switch {
	case command != "PUBSUB":
		return []string{"+" + strings.ToLower(command)}
	case script == "release":
		return []string{"+pubsub|channels", "+pubsub|shardchannels"}
	default:
		return []string{"+pubsub|numsub", "+pubsub|shardnumsub"}
	}
}

// Whoever adds a command to a script documents the right to it.
func TestC159_EveryCommandOfTheScriptsIsDocumentedAndNoOther(t *testing.T) {
	blocks := aclBlocks(t)
	used := map[string]bool{}
	for name, text := range resp.ScriptTexts() {
		for _, m := range regexp.MustCompile(`(?:call|must)\('([A-Z]+)'`).FindAllStringSubmatch(text, -1) {
			for _, right := range rightsTo(name, m[1]) {
				require.Contains(t, slices.Concat(blocks["lock"], blocks["cluster"], blocks["families"]), right, name)
				used[right] = true
			}
		}
	}
	for _, right := range blocks["families"] {
		require.True(t, right[0] != '+' || used[right], "no script needs %s", right)
	}
}

// C-158: a Config shows no password, however it is shown.
func TestC158_ThePasswordIsInNoConfigThatIsShown(t *testing.T) {
	for _, cfg := range []engine.Config{
		{Addrs: []string{"a:1"}, Username: "user", Password: testkit.Secret, SentinelPassword: testkit.Secret},
		{Addrs: []string{"redis://user:" + testkit.Secret + "@a:1/0"}},
		{Addrs: []string{"rediss://:" + testkit.Secret + "@a:1"}},
		{Addrs: []string{"redis://a:1?password=" + testkit.Secret}},
		{Addrs: []string{"unix://user:" + testkit.Secret + "@/run/redis.sock"}},
		{Addrs: []string{"user:" + testkit.Secret + "@a:1"}},
		{Addrs: []string{"redis://user:%zz" + testkit.Secret + "@a:1"}},
		{Addrs: []string{"jdbc:redis://user:" + testkit.Secret + "@a:1"}},
		{Addrs: []string{"user:" + testkit.Secret + "://a:1"}},
		{Addrs: []string{"redis://user:77#" + testkit.Secret + "@a:1"}},
		{Addrs: []string{"redis://:77?" + testkit.Secret + "@a:1"}},
	} {
		var text, lines bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("opening", "config", cfg)
		slog.New(slog.NewJSONHandler(&lines, nil)).Info("opening", "config", &cfg)
		plain, err := json.Marshal(map[string]any{"config": cfg})
		require.NoError(t, err)
		for _, shown := range []string{
			fmt.Sprint(cfg), fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg), fmt.Sprintf("%v %+v %#v", &cfg, []engine.Config{cfg}, struct{ C engine.Config }{cfg}),
			text.String(), lines.String(), string(plain),
		} {
			require.NotContains(t, shown, testkit.Secret)
			require.Contains(t, shown, "***")
		}
	}
	require.Contains(t, fmt.Sprint(engine.Config{Addrs: []string{"host:6379"}}), "host:6379")
}

// A name cannot begin a new line in a log, nor speak to a terminal: such names are refused, and the
// refusal does not show them raw.
func TestNamesWriteNothingOfTheirOwnIntoALog(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	var mu sync.Mutex
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(lockedWriter{&mu, &text}, nil))
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
	for _, name := range []string{"a\nlevel=ERROR msg=forged", "a\r", "\x1b[2J", "\u009b2J", "a\x00b", "\u0085"} {
		_, err := e.Lock(name).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrName)
		for _, r := range err.Error() {
			require.False(t, r < 0x20 || r >= 0x7f && r < 0xa0, "%q", err)
		}
	}
	// What is allowed and looks like something else stays one quoted word of one line.
	const name = `a" level=ERROR msg="forged`
	ls := testkit.Acquire(t, e.Lock(name, engine.FixedLease(100*time.Millisecond)))
	testkit.Within(t, ls.Context().Done(), testkit.TooLong, "it lapses")
	testkit.Eventually(t, "the loss is logged", func() bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(text.String(), "lost") })
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, strings.Split(strings.TrimSpace(text.String()), "\n"), 1)
	require.Contains(t, text.String(), fmt.Sprintf("name=%q", name))
	require.ErrorContains(t, ls.Release(testkit.Limited(t)), fmt.Sprintf("%q", name))
}

// What turns the direction of writing is allowed in a name, and escaped where it is shown: else what follows is read
// backwards.
func TestNamesTurnNoDirectionInALogOrAnError(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	logger, log := testkit.Logger()
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Logger = logger })
	const name = "a\u202egnp.exe\u2066b"
	ls := testkit.Acquire(t, e.Lock(name, engine.FixedLease(100*time.Millisecond)))
	_, err := e.Lock(name).TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	require.ErrorContains(t, err, `a\u202egnp.exe\u2066b`)
	require.NotContains(t, err.Error(), "\u202e")
	testkit.Within(t, ls.Context().Done(), testkit.TooLong, "it lapses")
	testkit.Eventually(t, "the loss is logged", func() bool { return len(log.With(`a\u202egnp.exe\u2066b`)) > 0 })
	require.Empty(t, log.With("\u202e"))
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
