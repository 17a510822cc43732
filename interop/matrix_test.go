package interop

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// A kind is one kind of lock, by its name in the driver and by what opens it in the engine.
type kind struct {
	name string
	open func(e *engine.Engine, name string, opts ...engine.Option) *engine.Lock
	// field is what the hash of a hold is called, for an owner of Java.
	field func(owner string) string
	// channel is where a waiter listens for its turn, "" if it does not.
	channel func(name, owner string) string
	// once: an owner that enters again is refused.
	once bool
}

func asIs(owner string) string { return owner }

func lockChannel(name, _ string) string { return slot.LockChannel(name) }

func noChannel(_, _ string) string { return "" }

func rwChannel(name, _ string) string { return slot.RWChannel(name) }

func writes(owner string) string { return owner + ":write" }

// kinds are the kinds that both sides have, but for the read lock, which excludes only writers.
var kinds = []kind{
	{name: "lock", field: asIs, channel: lockChannel, open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
		return e.Lock(n, o...)
	}},
	{name: "fenced", field: asIs, channel: lockChannel, open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
		return e.FencedLock(n, o...).Lock
	}},
	{name: "fair", field: asIs, channel: slot.FairWaiterChannel, open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
		return e.FairLock(n, o...).Lock
	}},
	{name: "write", field: writes, channel: rwChannel, open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
		return e.RWLock(n, o...).WriteLock()
	}},
	{name: "nonReentrant", field: asIs, channel: lockChannel, once: true, open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
		return e.Lock(n, append([]engine.Option{engine.NonReentrant()}, o...)...)
	}},
	{name: "spin", field: asIs, channel: noChannel, open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock {
		return e.Lock(n, append([]engine.Option{engine.Spin(time.Millisecond, 128*time.Millisecond)}, o...)...)
	}},
}

var readKind = kind{
	name: "read", field: asIs, channel: rwChannel,
	open: func(e *engine.Engine, n string, o ...engine.Option) *engine.Lock { return e.RWLock(n, o...).ReadLock() },
}

// kindOf returns the kind of that name.
func kindOf(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

// A deployment is a server or a cluster that both sides use.
type deployment struct {
	addrs   []string
	servers []*redistest.Server
	cluster *redistest.Cluster
	pubsub  engine.PubSub
	args    []string // further arguments of Clients.open
	java    *javaClient
	killed  bool // a server of it, by the test: Close says what had no answer
}

// deployments are where the matrix is played. The sharded mode of both sides must agree.
var deployments = []struct {
	name  string
	start func(t *testing.T) *deployment
}{
	{"single", func(t *testing.T) *deployment {
		s := redistest.Run(t, redistest.Options{})
		return &deployment{addrs: []string{s.Addr()}, servers: []*redistest.Server{s}}
	}},
	{"cluster", func(t *testing.T) *deployment {
		c := redistest.RunCluster(t, 3, 0)
		return &deployment{addrs: c.Addrs(), servers: c.Masters, cluster: c, args: []string{"topology", "cluster"}}
	}},
	{"cluster, plain messages", func(t *testing.T) *deployment {
		c := redistest.RunCluster(t, 3, 0)
		return &deployment{
			addrs: c.Addrs(), servers: c.Masters, cluster: c, pubsub: engine.PubSubPlain,
			args: []string{"topology", "cluster", "sharded", "OFF"},
		}
	}},
}

// A play is one case of the matrix: a kind of lock in a deployment.
type play struct {
	*deployment
	kind
}

// eachDeployment runs fn in every deployment, with one Redisson client.
func eachDeployment(t *testing.T, fn func(t *testing.T, d *deployment)) {
	for _, dep := range deployments {
		t.Run(dep.name, func(t *testing.T) {
			demand(t)
			d := dep.start(t)
			d.java = d.openJava(t)
			fn(t, d)
		})
	}
}

// eachKind runs fn for every kind in every deployment.
func eachKind(t *testing.T, fn func(t *testing.T, p play)) {
	eachDeployment(t, func(t *testing.T, d *deployment) {
		for _, k := range kinds {
			t.Run(k.name, func(t *testing.T) { fn(t, play{d, k}) })
		}
	})
}

func (d *deployment) openJava(t *testing.T, args ...string) *javaClient {
	t.Helper()
	return openJava(t, strings.Join(d.addrs, ","), slices.Concat(d.args, args)...)
}

func (d *deployment) openGo(t testing.TB, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	cfg := engine.Config{Addrs: d.addrs, PubSub: d.pubsub}
	for _, c := range change {
		c(&cfg)
	}
	e, err := engine.Open(testkit.Limited(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); !d.killed {
			require.NoError(t, err)
		}
	})
	return e
}

// at returns the server that serves a key.
func (d *deployment) at(t testing.TB, key string) *redistest.Server {
	t.Helper()
	if d.cluster == nil {
		return d.servers[0]
	}
	s, err := d.cluster.Owner(t.Context(), slot.Of(key))
	require.NoError(t, err)
	return s
}

// do runs a command at the server of its first key.
func (d *deployment) do(t *testing.T, verb, key string, args ...string) string {
	t.Helper()
	return d.at(t, key).Do(t, append([]string{verb, key}, args...)...)
}

// pttl returns a key's time to live; negative: as PTTL says.
func (d *deployment) pttl(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := strconv.Atoi(d.do(t, "PTTL", key))
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// listening waits until n clients are subscribed to the channel on which owner waits for name; of a fair
// lock, which has a channel for each waiter, "" is the last in the queue. In a cluster with plain
// messages they may listen anywhere.
func (p play) listening(t *testing.T, name, owner string, n int) {
	t.Helper()
	if p.name == "fair" && owner == "" {
		testkit.Eventually(t, "somebody queues", func() bool {
			owner = p.do(t, "LINDEX", slot.FairQueue(name), "-1")
			return owner != "(nil)"
		})
	}
	channel := p.channel(name, owner)
	if channel == "" {
		return // who spins cannot be seen to wait
	}
	servers, ask := p.servers, "NUMSUB"
	if p.cluster != nil && p.pubsub != engine.PubSubPlain {
		servers, ask = []*redistest.Server{p.at(t, name)}, "SHARDNUMSUB"
	}
	testkit.Eventually(t, channel+" is listened to", func() bool {
		sum := 0
		for _, s := range servers {
			_, count, _ := strings.Cut(s.Do(t, "PUBSUB", ask, channel), "\n")
			k, _ := strconv.Atoi(count)
			sum += k
		}
		return sum >= n
	})
}

// waits waits until a thread of Java, whose lock has been started, waits for a message.
func (p play) waits(t *testing.T, th *javaThread, name string) {
	t.Helper()
	if p.channel(name, th.owner) == "" {
		return // who spins cannot be seen to wait
	}
	p.listening(t, name, th.owner, 1)
	th.parks(t)
}

// requireHeld checks that the hash of name shows this hold and no other.
func (p play) requireHeld(t *testing.T, name, field string, count int, msg ...any) {
	t.Helper()
	f := strings.Split(p.do(t, "HGETALL", name), "\n")
	got := map[string]string{}
	for i := 0; i+1 < len(f); i += 2 {
		got[f[i]] = f[i+1]
	}
	want := map[string]string{field: strconv.Itoa(count)}
	if mode, ok := map[string]string{"read": "read", "write": "write"}[p.name]; ok {
		want["mode"] = mode
	}
	require.Equal(t, want, got, msg...)
}

// requireWokenByMessage checks that no waiter of e had to find its grant by polling.
func (p play) requireWokenByMessage(t *testing.T, e *engine.Engine) {
	t.Helper()
	if p.channel("", "") != "" {
		require.Zero(t, e.Stats().GrantsByPoll, "a message of Java's did not come")
	}
}
