package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// partOrder notes the order in which parts are asked for and given back.
type partOrder struct {
	asked, given []string
	futures      []*Future[*Lease]   // of those that were asked for
	answers      []*Future[struct{}] // of those that were given back
}

func (p *partOrder) asks(l *Lock, _ *Owner, _ bool) func(*Future[*Lease]) {
	p.asked = append(p.asked, l.Name())
	return func(f *Future[*Lease]) { p.futures = append(p.futures, f) }
}

func (p *partOrder) givesBack(ls *Lease) func(*Future[struct{}]) {
	p.given = append(p.given, ls.Name())
	return func(f *Future[struct{}]) { p.answers = append(p.answers, f) }
}

func (p *partOrder) extends(*Lease, time.Duration) func(*Future[struct{}]) {
	return func(*Future[struct{}]) {}
}

// Who waits for several locks waits for the first that is held: if the first were given back first, it would find the
// second held, wait for that, and so on for as many as there are.
func TestMultiGivesTheLastBackFirst(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	e, err := Open(context.Background(), Config{Addrs: []string{s.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	order := &partOrder{}
	e.joints.watch = order
	ls, err := e.MultiLock("c", "a", "d", "b").Acquire(context.Background())
	require.NoError(t, err)
	require.NoError(t, ls.Release(context.Background()))
	require.Equal(t, []string{"a", "b", "c", "d"}, order.asked)
	slices.Reverse(order.given)
	require.Equal(t, order.asked, order.given)
	other, err := e.Lock("c").Acquire(context.Background())
	require.NoError(t, err)
	order.given, order.answers = nil, nil
	f := e.MultiLock("c", "a", "d", "b").TryAcquireAsync(context.Background())
	told := make(chan int, 1)
	f.then(func() {
		unanswered := 0
		for _, given := range order.answers {
			if _, _, ok := given.Result(); !ok {
				unanswered++
			}
		}
		told <- unanswered
	})
	require.Zero(t, <-told, "a Try that fails leaves nothing behind")
	require.ErrorIs(t, f.err, ErrHeld)
	require.Equal(t, []string{"d", "b", "a"}, order.given)
	require.NoError(t, other.Release(context.Background()))
}

// Each process has engines with ids of their own. If those decided, two processes would take the same locks in other
// orders, and each would wait for what the other has.
func TestTheOrderOfLocksIsTheSameInEveryProcess(t *testing.T) {
	of := func(id, key string, addrs ...string) *Lock {
		cfg := Config{Addrs: addrs}
		return &Lock{eng: &Engine{id: id, cfg: cfg, place: cfg.place()}, key: key}
	}
	order := func(a, b *Lock) int {
		require.Equal(t, a.compare(b), -b.compare(a))
		return a.compare(b)
	}
	require.Negative(t, order(of("2", "x", "one"), of("1", "y", "two")))
	require.Negative(t, order(of("1", "x", "two"), of("2", "y", "one")))
	require.Negative(t, order(of("2", "x", "one"), of("1", "x", "two")))
	require.Negative(t, order(of("1", "x", "one"), of("2", "x", "two")))
	require.Negative(t, order(of("2", "x", "one", "three"), of("1", "x", "three", "two")), "by the least of them")
	require.Negative(t, order(of("1", "x"), of("2", "x")), "nothing else tells them apart")
	one := of("1", "x")
	require.Zero(t, one.compare(&Lock{eng: one.eng, key: "x"}))
}

func TestThePlaceOfAnEngineIsWhichLocksItMeans(t *testing.T) {
	place := func(cfg Config) string { return cfg.place() }
	plain := place(Config{Addrs: []string{"one:6379"}})
	require.Equal(t, plain, place(Config{Addrs: []string{"redis://user:secret@one:6379"}}))
	require.Equal(t, plain, place(Config{Addrs: []string{"redis://other:word@one:6379/0"}}))
	require.Equal(t, plain, place(Config{Addrs: []string{"one:6379"}, Username: "user", Password: "secret"}))
	require.NotContains(t, place(Config{Addrs: []string{"redis://user:secret@one:6379"}}), "secret")
	second := place(Config{Addrs: []string{"one:6379"}, DB: 1})
	require.NotEqual(t, plain, second, "another database has other locks")
	require.Equal(t, second, place(Config{Addrs: []string{"redis://one:6379/1"}}))
	require.NotEqual(t, plain, place(Config{Addrs: []string{"one:6379"}, MasterName: "main"}))
	nodes := Config{Addrs: []string{"b:1", "a:1"}}
	require.Equal(t, place(Config{Addrs: []string{"a:1", "b:1"}}), place(nodes))
	require.Equal(t, []string{"b:1", "a:1"}, nodes.Addrs, "the caller's own order stays")
}
