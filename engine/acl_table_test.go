package engine_test

import (
	"context"
	"errors"
	"fmt"
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
)

// aclFamilies are the columns of the table of rights in docs/SECURITY.md: their locks, and the scripts that are theirs.
var aclFamilies = map[string]struct {
	scripts []string
	locks   []func(e *engine.Engine, name string, o ...engine.Option) *engine.Lock // the first excludes the others
}{
	"lock": {[]string{"acquire", "release", "acquireone", "releaseone"}, []func(*engine.Engine, string, ...engine.Option) *engine.Lock{(*engine.Engine).Lock}},
	"spin": {[]string{"acquire", "release", "acquireone", "releaseone"}, []func(*engine.Engine, string, ...engine.Option) *engine.Lock{
		func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
			return e.Lock(n, append(o, engine.Spin(5*time.Millisecond, 50*time.Millisecond))...)
		},
	}},
	"fenced": {[]string{"fenced", "release", "releaseone"}, []func(*engine.Engine, string, ...engine.Option) *engine.Lock{
		func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock { return e.FencedLock(n, o...).Lock },
	}},
	"fair": {[]string{"fair", "fairrelease", "queue"}, []func(*engine.Engine, string, ...engine.Option) *engine.Lock{
		func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock { return e.FairLock(n, o...).Lock },
	}},
	"read-write": {[]string{"read", "readrenew", "readrelease", "write", "writerelease"}, []func(*engine.Engine, string, ...engine.Option) *engine.Lock{
		func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
			return e.RWLock(n, o...).WriteLock()
		},
		func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock { return e.RWLock(n, o...).ReadLock() },
	}},
	"semaphore": {[]string{"semaphore", "semaphorerelease", "semaphoreset"}, nil},
	"latch":     {[]string{"latch", "latchdown", "latchset"}, nil},
	"permits":   {[]string{"permits", "permitsrelease", "permitsrenew", "permitsset", "permitsleased"}, nil},
	"group":     {[]string{"group", "groupcount", "grouprelease", "grouprenew", "groupforce", "groupheld"}, nil},
	"barrier":   {[]string{"barrier", "barrierleave", "barrierset"}, nil},
}

// aclTable reads the two tables of rights: by family, and all rights that a topology needs.
func aclTable(t *testing.T) (families map[string][]string, topologies []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "SECURITY.md"))
	require.NoError(t, err)
	families = map[string][]string{}
	right := regexp.MustCompile("`([+~&][^`]+)`")
	var columns []string
	for line := range strings.Lines(string(text)) {
		row, isRow := strings.CutPrefix(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if !isRow {
			columns = nil
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
		}
		if cells[0] == "right" {
			columns = cells
			continue
		}
		for _, m := range right.FindAllStringSubmatch(cells[0], -1) {
			for i, column := range columns {
				switch {
				case column == "topology":
					topologies = append(topologies, m[1])
				case cells[i] == "x":
					families[column] = append(families[column], m[1])
				}
			}
		}
	}
	return families, topologies
}

// sharedScripts serve every family of locks.
var sharedScripts = []string{"reacquire", "renew", "inspect", "force"}

// The rights that a connection needs, whatever the family; EXISTS is for slots that are being moved.
var connectionRights = []string{"+exists", "+ping", "+info", "+time", "+script|load", "+evalsha", "+subscribe", "+unsubscribe", "+multi", "+exec", "+publish"}

// The table of rights says nothing but what the scripts call, and together it is what the blocks say.
func TestC159_TheTableOfRightsIsWhatTheScriptsCallAndWhatTheBlocksSay(t *testing.T) {
	t.Parallel()
	families, topologies := aclTable(t)
	blocks := aclBlocks(t)
	sorted := func(lists ...[]string) []string {
		all := slices.DeleteFunc(slices.Concat(lists...), func(r string) bool { return !isRight(r) })
		slices.Sort(all)
		return slices.Compact(all)
	}
	var all []string
	for _, rights := range families {
		all = append(all, rights...)
	}
	require.Equal(t, sorted(blocks["lock"], blocks["families"]), sorted(all))
	require.Equal(t, sorted(blocks["database"], blocks["replicas"], blocks["cluster"], blocks["sentinel-master"], blocks["sentinel"]), sorted(topologies))
	called := func(name string) (rights []string) {
		for _, m := range regexp.MustCompile(`(?:call|must)\('([A-Z]+)'`).FindAllStringSubmatch(resp.ScriptTexts()[name], -1) {
			rights = append(rights, rightsTo(name, m[1])...)
		}
		return rights
	}
	require.Len(t, families, len(aclFamilies))
	for family, of := range aclFamilies {
		var own, shared []string
		for _, name := range of.scripts {
			own = append(own, called(name)...)
		}
		for _, name := range sharedScripts {
			if of.locks == nil {
				break
			}
			shared = append(shared, called(name)...)
		}
		for _, right := range families[family] {
			if right[0] == '+' {
				require.Contains(t, slices.Concat(own, shared, connectionRights), right, family)
			}
		}
		for _, right := range own {
			// A release of spin locks publishes nothing, so it does not ask who listens.
			if !slices.Contains(blocks["cluster"], right) && (family != "spin" || right != "+pubsub|channels") {
				require.Contains(t, families[family], right, family)
			}
		}
	}
}

// The rights of a family's column are enough for all that it can do.
func TestC159_TheRightsOfEachFamilyAreEnough(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--acllog-max-len", "10000"}})
	families, _ := aclTable(t)
	var wg sync.WaitGroup
	for family, of := range aclFamilies {
		as := aclUser(t, family, append([]string{"on", ">secret", "resetkeys", "resetchannels"}, families[family]...), s)
		a, b := testkit.Open(t, s.Addr(), as), testkit.Open(t, s.Addr(), as)
		for i, lock := range of.locks {
			wg.Go(func() {
				suite := &aclSuite{ctx: testkit.Limited(t), prefix: fmt.Sprint("app:", family, i, ":")}
				suite.family(of.locks[0], lock, a, b)
				if err := errors.Join(suite.errs...); err != nil {
					t.Errorf("%s: %v", family, err)
				}
			})
		}
	}
	wg.Wait()
	for family := range aclFamilies {
		require.Empty(t, refusedTo(t, family, s), family)
	}
}

// The rights of the column of leased permits are enough for all that they can do.
func TestC159_TheRightsOfLeasedPermitsAreEnough(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--acllog-max-len", "10000"}})
	families, _ := aclTable(t)
	as := aclUser(t, "permits", append([]string{"on", ">secret", "resetkeys", "resetchannels"}, families["permits"]...), s)
	a, b := testkit.Open(t, s.Addr(), as), testkit.Open(t, s.Addr(), as)
	ctx := testkit.Limited(t)
	sem := a.PermitSemaphore("app:s", engine.WatchdogLease(time.Second))
	_, err := sem.AddPermits(ctx, 1)
	require.NoError(t, err)
	_, err = sem.SetPermits(ctx, 2)
	require.NoError(t, err)
	held, err := sem.Acquire(ctx, 2)
	require.NoError(t, err)
	for _, read := range []func(context.Context) (int, error){sem.AvailablePermits, sem.AcquiredPermits, sem.Permits} {
		_, err = read(ctx)
		require.NoError(t, err)
	}
	waits := b.PermitSemaphore("app:s").AcquireAsync(ctx, 1)
	sent := a.Stats().Renewals.Sent
	testkit.Eventually(t, "it is renewed", func() bool { return a.Stats().Renewals.Sent > sent+1 })
	holders, err := sem.Holders(ctx)
	require.NoError(t, err)
	require.Len(t, holders, 2)
	changed, err := sem.UpdateLease(ctx, holders[0].ID, time.Minute)
	require.NoError(t, err)
	require.True(t, changed)
	_, err = sem.LeaseTime(ctx, holders[0].ID)
	require.NoError(t, err)
	require.NoError(t, sem.Release(ctx, holders[0].ID))
	require.NoError(t, testkit.Get(t, waits).Extend(ctx, time.Minute))
	require.ErrorIs(t, held.Release(ctx), engine.ErrLost)
	gone, err := sem.Delete(ctx)
	require.NoError(t, err)
	require.True(t, gone)
	_, err = sem.TrySetPermits(ctx, 1)
	require.NoError(t, err)
	require.Empty(t, refusedTo(t, "permits", s))
	s.Do(t, "FLUSHALL")
}

// The rights of the column of groups are enough for all that their locks can do.
func TestC159_TheRightsOfGroupsAreEnough(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--acllog-max-len", "10000"}})
	families, _ := aclTable(t)
	as := aclUser(t, "group", append([]string{"on", ">secret", "resetkeys", "resetchannels"}, families["group"]...), s)
	a, b := testkit.Open(t, s.Addr(), as), testkit.Open(t, s.Addr(), as)
	ctx := testkit.Limited(t)
	g := a.GroupLock("app:g", engine.KryoStrings("a", "b"), engine.WatchdogLease(time.Second), engine.As(engine.NewOwner()))
	held, err := g.Acquire(ctx)
	require.NoError(t, err)
	again, err := g.With(engine.FixedLease(time.Minute)).Acquire(ctx)
	require.NoError(t, err)
	waits := b.GroupLock("app:g", engine.KryoStrings("b", "c"), engine.FixedLease(time.Second)).AcquireAsync(ctx)
	sent := a.Stats().Renewals.Sent
	testkit.Eventually(t, "it is renewed", func() bool { return a.Stats().Renewals.Sent > sent+1 })
	holders, err := g.Holders(ctx)
	require.NoError(t, err)
	require.Len(t, holders, 2)
	require.NoError(t, again.Release(ctx))
	require.NoError(t, held.Release(ctx))
	require.NoError(t, testkit.Get(t, waits).Extend(ctx, time.Minute))
	was, err := a.GroupLock("app:g", engine.KryoStrings("c")).ForceRelease(ctx)
	require.NoError(t, err)
	require.True(t, was)
	require.Empty(t, refusedTo(t, "group", s))
	s.Do(t, "FLUSHALL")
}

// aclScripts runs scripts as one who has the rights of a column.
func aclScripts(t *testing.T, family string, s *redistest.Server) func(script, key string, args ...string) []any {
	t.Helper()
	families, _ := aclTable(t)
	aclUser(t, family, append([]string{"on", ">secret", "resetkeys", "resetchannels"}, families[family]...), s)
	conn, err := s.Dial(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = conn.Do(t.Context(), "AUTH", family, "secret")
	require.NoError(t, err)
	return func(script, key string, args ...string) []any {
		sha, err := conn.Do(t.Context(), "SCRIPT", "LOAD", resp.ScriptTexts()[script])
		require.NoError(t, err)
		v, err := conn.Do(t.Context(), append([]string{"EVALSHA", redistest.Text(sha), "1", key}, args...)...)
		require.NoError(t, err)
		return v.([]any)
	}
}

// The rights of a latch's column are enough for its scripts.
func TestTheRightsOfALatchAreEnoughForItsScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	run := aclScripts(t, "latch", s)
	const ahead = "99999999999999"
	for _, key := range []string{"app:l", "app:{l}"} {
		for i, tagged := range []string{"0", "tagged"} {
			for _, what := range []string{"get", "set", "get", "delete", "set"} {
				run("latchset", key, "PUBLISH", what, "3", "0", ahead, tagged)
			}
			require.Equal(t, int64(0), run("latch", key, "0", "0", ahead, "0", "-1")[1])
			for j := range 3 {
				run("latchdown", key, "PUBLISH", tagged, "0", fmt.Sprintf("e:%d:1", 3*i+j+1), "1")
			}
			require.Equal(t, int64(1), run("latch", key, "0", "0", ahead, "0", "5")[1])
		}
	}
	require.Empty(t, refusedTo(t, "latch", s))
}

// The rights of a barrier's column are enough for its scripts.
func TestTheRightsOfABarrierAreEnoughForItsScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	run := aclScripts(t, "barrier", s)
	const ahead = "99999999999999"
	for _, key := range []string{"app:b", "app:{b}"} {
		require.Equal(t, "w", redistest.Text(run("barrier", key, "30000", "e:1:7/2", ahead, "0", "PUBLISH")[3]))
		require.Equal(t, "pp", redistest.Text(run("barrier", key, "30000", "e:2:7/2+,8/2", ahead, "0", "PUBLISH")[3]))
		require.Equal(t, "w", redistest.Text(run("barrier", key, "30000", "e:3:9/2", ahead, "0", "PUBLISH")[3]))
		run("barrierleave", key, "PUBLISH", "0", "0", "e:4:9", "1")
		for i, what := range []string{"waiting", "broken", "reset"} {
			require.Equal(t, []int64{0, 1, 0}[i], run("barrierset", key, "PUBLISH", what, "0", "0", ahead)[2])
		}
	}
	require.Empty(t, refusedTo(t, "barrier", s))
}

// The rights of a semaphore's column are enough for its scripts.
func TestTheRightsOfASemaphoreAreEnoughForItsScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	run := aclScripts(t, "semaphore", s)
	const ahead = "99999999999999"
	for _, key := range []string{"app:s", "app:{s}"} {
		for _, what := range []string{"get", "set", "add", "some"} {
			run("semaphoreset", key, "PUBLISH", what, "2", "0", ahead)
		}
		require.Equal(t, []any{int64(1), int64(3)}, run("semaphore", key, "0", "e:1", ahead, "0", "1", "2")[1:])
		for _, request := range []string{"e:1:1", "e:1", "e:2"} {
			run("semaphorerelease", key, "PUBLISH", "0", "0", request, "1")
		}
		require.Equal(t, []any{int64(1), int64(7)}, run("semaphoreset", key, "PUBLISH", "drain", "0", "0", ahead)[1:])
		run("semaphoreset", key, "PUBLISH", "delete", "0", "0", ahead)
		run("semaphoreset", key, "PUBLISH", "set", "2", "60000", ahead)
		s.Do(t, "HSET", key+"2", "no", "permits")
		run("semaphorerelease", key+"2", "PUBLISH", "0", "0", "e:1:1", "1") // the note is written, and undone
	}
	require.Empty(t, refusedTo(t, "semaphore", s))
}

// family does with one kind of lock what can be done, on names with and without a brace; holds is of a kind that excludes it.
func (s *aclSuite) family(holds, lock func(*engine.Engine, string, ...engine.Option) *engine.Lock, a, b *engine.Engine) {
	for _, brace := range []string{"", "{x}"} {
		name := func(text string) string { return s.name(text, brace) }
		var many []*engine.Future[*engine.Lease]
		for i := range 100 { // some of them travel together
			many = append(many, lock(a, name(fmt.Sprint("many:", i))).AcquireAsync(s.ctx))
		}
		for _, f := range many {
			if ls, err := f.Await(s.ctx); s.do(err) {
				s.do(ls.Release(s.ctx))
			}
		}
		owner := engine.WithOwner(s.ctx, engine.NewOwner())
		if outer, err := lock(a, name("nested")).Acquire(owner); s.do(err) {
			if inner, err := lock(a, name("nested")).Acquire(owner); s.do(err) {
				s.do(inner.Release(s.ctx))
			}
			s.do(outer.Release(s.ctx))
		}
		if ls, err := lock(a, name("fixed"), engine.FixedLease(time.Second)).Acquire(s.ctx); s.do(err) {
			s.do(ls.Extend(s.ctx, time.Minute))
			s.do(ls.Release(s.ctx))
		}
		if ls, err := lock(a, name("renewed"), engine.WatchdogLease(2*time.Second)).Acquire(s.ctx); s.do(err) {
			first := ls.Deadline()
			for s.ctx.Err() == nil && !ls.Lost() && !ls.Deadline().After(first.Add(100*time.Millisecond)) {
				testkit.LastUntil(time.Now().Add(5 * time.Millisecond))
			}
			s.do(ls.Release(s.ctx))
		}
		held, err := holds(a, name("waited")).Acquire(s.ctx)
		if !s.do(err) {
			continue
		}
		left, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond) // one that leaves
		if _, err := lock(b, name("waited")).Acquire(left); err == nil {
			s.errs = append(s.errs, errors.New("held twice"))
		}
		cancel()
		f := s.told(lock(b, name("waited")))
		_, err = lock(b, name("waited")).Inspect(s.ctx)
		s.do(err)
		if strings.Contains(s.prefix, "fair") {
			_, err = b.FairLock(name("waited")).Queue(s.ctx)
			s.do(err)
		}
		s.do(held.Release(s.ctx))
		if got, err := f.Await(s.ctx); s.do(err) {
			s.do(got.Release(s.ctx))
		}
		if _, err := holds(a, name("forced")).Acquire(s.ctx); s.do(err) {
			f := s.told(lock(b, name("forced")))
			_, err := holds(b, name("forced")).ForceRelease(s.ctx)
			s.do(err)
			if got, err := f.Await(s.ctx); s.do(err) {
				s.do(got.Release(s.ctx))
			}
		}
	}
}
