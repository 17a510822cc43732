package api_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

func TestConfigThatCannotWorkIsRefusedBeforeAnythingIsConnected(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	touched := make(chan struct{}, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			touched <- struct{}{}
			_ = c.Close()
		}
	}()
	addr := listener.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	s := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(engine.ClientOption(engine.Config{Addrs: []string{s.Addr()}}))
	require.NoError(t, err)
	defer client.Close()

	for what, cfg := range map[string]engine.Config{
		"no address":                   {},
		"an empty list":                {Addrs: []string{}},
		"an empty address":             {Addrs: []string{""}},
		"a host without a port":        {Addrs: []string{"127.0.0.1"}},
		"a port without a host":        {Addrs: []string{":" + port}},
		"a port that is no number":     {Addrs: []string{"127.0.0.1:redis"}},
		"port zero":                    {Addrs: []string{"127.0.0.1:0"}},
		"a port too high":              {Addrs: []string{"127.0.0.1:65536"}},
		"a negative port":              {Addrs: []string{"127.0.0.1:-1"}},
		"bare IPv6":                    {Addrs: []string{"::1"}},
		"another scheme":               {Addrs: []string{"http://" + addr}},
		"a URL with a bad database":    {Addrs: []string{"redis://" + addr + "/x"}},
		"a URL with a secret, bad":     {Addrs: []string{"redis://user:" + testkit.Secret + "@127.0.0.1:port"}},
		"a URL with a secret, escaped": {Addrs: []string{"redis://user:" + testkit.Secret + "%zz@127.0.0.1:1"}},
		"two addresses of one server":  {Addrs: []string{addr, addr}, Topology: engine.TopologySingle},
		"two addresses and a database": {Addrs: []string{addr, addr}, DB: 1},
		"a URL among addresses":        {Addrs: []string{addr, "redis://" + addr}},
		"a prefix of two lines":        {Addrs: []string{addr}, Prefix: "a\n"},
		"a prefix that is reserved":    {Addrs: []string{addr}, Prefix: "redisson_"},
		"a prefix too long":            {Addrs: []string{addr}, Prefix: strings.Repeat("x", 1024)},
		"a negative queue":             {Addrs: []string{addr}, QueueMax: -1},
		"a long grace":                 {Addrs: []string{addr}, CloseGrace: 7 * time.Second},
		"an unknown topology":          {Addrs: []string{addr}, Topology: 99},
		"an unknown kind of pub/sub":   {Addrs: []string{addr}, PubSub: 99},
		"a negative database":          {Addrs: []string{addr}, DB: -1},
		"a negative database in a URL": {Addrs: []string{"redis://" + addr + "/-1"}},
		"a password and no URL":        {Addrs: []string{testkit.Secret + "@" + addr}},
		"a password that spills":       {Addrs: []string{"redis://user:77#" + testkit.Secret + "@" + addr}},
		"two databases":                {Addrs: []string{"redis://" + addr + "/1"}, DB: 2},
		"a username without password":  {Addrs: []string{addr}, Username: "user"},
		"a client name with spaces":    {Addrs: []string{addr}, ClientName: "a b"},
		"both client and addresses":    {Client: client, Addrs: []string{addr}},
		"a client and a password":      {Client: client, Password: testkit.Secret},
		"a client and a database":      {Client: client, DB: 1},
		"a client and TLS":             {Client: client, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			e, err := engine.Open(testkit.Limited(t), cfg)
			if e != nil {
				_ = testkit.Close(e)
			}
			require.Nil(t, e)
			require.ErrorIs(t, err, engine.ErrConfig)
			require.Regexp(t, `^holdfast: bad configuration: `, err.Error())
			require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), testkit.Secret, "C-158")
			require.False(t, engine.SafeToRetry(err))
		})
	}
	require.Empty(t, touched, "nobody was dialled")
}

// C-158: whatever goes wrong, what went wrong is not shown together with the password.
func TestC158_ThePasswordIsInNoError(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	free, err := redistest.FreePort()
	require.NoError(t, err)
	closed := fmt.Sprintf("127.0.0.1:%d", free)
	logger, log := testkit.Logger()
	for _, cfg := range []engine.Config{
		{Addrs: []string{"redis://user:" + testkit.Secret + "@" + closed}},
		{Addrs: []string{"redis://user:" + testkit.Secret + "@" + s.Addr()}},
		{Addrs: []string{"rediss://user:" + testkit.Secret + "@" + closed}},
		{Addrs: []string{"redis://:" + testkit.Secret + "@" + s.Addr() + "/99"}},
		{Addrs: []string{"unix://user:" + testkit.Secret + "@" + filepath.Join(t.TempDir(), "no.sock")}},
		{Addrs: []string{closed}, Password: testkit.Secret},
		{Addrs: []string{s.Addr()}, Username: "user", Password: testkit.Secret},
	} {
		cfg.Logger = logger
		e, err := engine.Open(testkit.Limited(t), cfg)
		require.Error(t, err, "%q", cfg.Addrs)
		require.Nil(t, e)
		for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
			require.NotContains(t, fmt.Sprintf("%v %+v %#v %q", wrapped, wrapped, wrapped, wrapped), testkit.Secret)
		}
	}
	require.Empty(t, log.With(testkit.Secret))
}

// C-158: a server that has kept the password of the handshake may say it later.
func TestC158_ThePasswordIsInNoErrorOfAnOperation(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Args: []string{"--requirepass", testkit.Secret}})
	p := faultproxy.Run(t, s.Addr())
	logger, log := testkit.Logger()
	e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{p.Addr()}, Password: testkit.Secret, Logger: logger})
	require.NoError(t, err)
	lease := testkit.Acquire(t, e.Lock("held", engine.FixedLease(time.Minute)))
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"acquire", func() error { _, err := e.Lock("a").Acquire(testkit.Limited(t)); return err }},
		{"fair", func() error { _, err := e.FairLock("f").TryAcquire(testkit.Limited(t)); return err }},
		{"inspect", func() error { _, err := e.Lock("a").Inspect(testkit.Limited(t)); return err }},
		{"force", func() error { _, err := e.Lock("a").ForceRelease(testkit.Limited(t)); return err }},
		{"extend", func() error { return lease.Extend(testkit.Limited(t), time.Minute) }},
		{"ping", func() error { return e.Ping(testkit.Limited(t)) }},
		{"release", func() error { return lease.Release(testkit.Limited(t)) }},
	} {
		refusal := p.Refuse(faultproxy.Command("EVALSHA", "PING"), -1, "NOPERM "+testkit.Secret+" is yours")
		err := c.do()
		refusal.Remove()
		var server *engine.ServerError
		require.ErrorAs(t, err, &server, c.what)
		require.Contains(t, err.Error(), "NOPERM ***", c.what)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, server), testkit.Secret, c.what)
	}
	require.Empty(t, log.With(testkit.Secret))
	require.NoError(t, testkit.Close(e))
}

func TestADatabaseThatIsNotThereIsABadConfiguration(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	for _, cfg := range []engine.Config{
		{Addrs: []string{s.Addr()}, DB: 99},
		{Addrs: []string{"redis://" + s.Addr() + "/99"}},
	} {
		_, err := engine.Open(testkit.Limited(t), cfg)
		require.ErrorIs(t, err, engine.ErrConfig)
		require.ErrorContains(t, err, " has no database 99")
	}
}

func TestWrongPasswordIsAClearServerErrorOfItsClass(t *testing.T) {
	s := redistest.Run(t, redistest.Options{Args: []string{"--requirepass", testkit.Secret}})
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}})
	require.EqualError(t, err, "holdfast: "+s.Addr()+" wants a password, and none is given")
	for _, cfg := range []engine.Config{
		{Addrs: []string{s.Addr()}},
		{Addrs: []string{s.Addr()}, Password: "wrong"},
		{Addrs: []string{s.Addr()}, Username: "nobody", Password: testkit.Secret},
		{Addrs: []string{"redis://:wrong@" + s.Addr()}},
	} {
		start := time.Now()
		e, err := engine.Open(testkit.Limited(t), cfg)
		require.Nil(t, e)
		var server *engine.ServerError
		require.ErrorAs(t, err, &server)
		require.Equal(t, engine.ClassNoAuth, server.Class, "%v", err)
		require.ErrorContains(t, err, s.Addr())
		require.NotContains(t, err.Error(), ":wrong@")
		require.False(t, engine.SafeToRetry(err))
		require.Less(t, testkit.Ran(start), 2*time.Second, "not retried")
	}
	for _, cfg := range []engine.Config{
		{Addrs: []string{s.Addr()}, Password: testkit.Secret},
		{Addrs: []string{"redis://:" + testkit.Secret + "@" + s.Addr()}},
		{Addrs: []string{"redis://" + s.Addr()}, Username: "default", Password: testkit.Secret},
	} {
		e, err := engine.Open(testkit.Limited(t), cfg)
		require.NoError(t, err)
		testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
		require.NoError(t, testkit.Close(e))
	}
}

func TestUnreachableServerIsAnErrorWithinAFewSeconds(t *testing.T) {
	t.Parallel()
	free, err := redistest.FreePort()
	require.NoError(t, err)
	start := time.Now()
	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{fmt.Sprintf("127.0.0.1:%d", free)}})
	var server *engine.ServerError
	require.ErrorAs(t, err, &server)
	require.Equal(t, engine.ClassUnreachable, server.Class)
	require.True(t, engine.SafeToRetry(err))
	require.Less(t, testkit.Ran(start), 5*time.Second)

	s := redistest.Run(t, redistest.Options{})
	s.Pause() // accepts connections, answers nothing
	start = time.Now()
	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}})
	require.ErrorAs(t, err, &server)
	require.Equal(t, engine.ClassUnreachable, server.Class)
	require.Less(t, testkit.Ran(start), 8*time.Second)

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start = time.Now()
	_, err = engine.Open(ctx, engine.Config{Addrs: []string{s.Addr()}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, testkit.Ran(start), 100*time.Millisecond+testkit.Soon)
	ended, stop := context.WithCancel(context.Background())
	stop()
	_, err = engine.Open(ended, engine.Config{Addrs: []string{s.Addr()}})
	require.ErrorIs(t, err, context.Canceled)
	s.Resume()
	// What was dialled in vain goes away by itself.
	testkit.Eventually(t, "no connection is left", func() bool { return strings.Count(s.Do(t, "CLIENT", "LIST"), "name=holdfast") == 0 })
}

// docs/OPERATIONS.md counts them.
func TestAnEngineHasSevenConnectionsAtMost(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}, ClientName: "counted"})
	require.NoError(t, err)
	other := testkit.Open(t, s.Addr())
	has := func() int { return strings.Count(s.Do(t, "CLIENT", "LIST"), "name=counted") }
	// Everything that has a connection of its own: renewals, who waits, who asks, replicas, hundreds of locks at once.
	held := testkit.Acquire(t, e.Lock("held", engine.WatchdogLease(engine.MinWatchdogLease)))
	waiting := testkit.Acquire(t, other.Lock("waiting"))
	waits := e.Lock("waiting").AcquireAsync(testkit.Limited(t))
	testkit.Eventually(t, "it is heard of", func() bool {
		return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{waiting}") == "redisson_lock__channel:{waiting}\n1"
	})
	require.NoError(t, e.Ping(testkit.Limited(t)))
	// Its WAIT has to be answered: a connection with one that was given up stays until the server has done with it.
	_, err = e.Lock("seen", engine.WaitReplicas(1, 50*time.Millisecond)).TryAcquire(testkit.Limited(t))
	require.Error(t, err, "there is no replica")
	before := has()
	testkit.Eventually(t, "hundreds at once take one connection more", func() bool {
		var pairs sync.WaitGroup
		for i := range 2000 {
			pairs.Go(func() {
				for range 20 {
					ls, err := e.Lock(testkit.Numbered("many", i)).Acquire(testkit.Limited(t))
					if err == nil {
						err = ls.Release(testkit.Limited(t))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		pairs.Wait()
		return has() > before
	})
	require.LessOrEqual(t, has(), 7)
	testkit.Release(t, waiting)
	testkit.Release(t, testkit.Get(t, waits))
	testkit.Release(t, held)
	require.NoError(t, e.Close(testkit.Limited(t)))
	testkit.Eventually(t, "none is left", func() bool { return has() == 0 })
}

// A plaintext server takes the handshake for the beginning of a command, and waits for its end.
func TestC157_TLSToAServerThatDoesNotAnswerTheHandshakeIsAnErrorWithinAFewSeconds(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	start := time.Now()
	e, err := engine.Open(ctx, engine.Config{Addrs: []string{"rediss://user:" + testkit.Secret + "@" + s.Addr()}})
	took := testkit.Ran(start)
	s.Stop() // ends a handshake that would go on for ever
	require.Nil(t, e)
	require.Error(t, err)
	require.NotContains(t, err.Error(), testkit.Secret)
	require.Less(t, took, 6*time.Second, "%v", err)
	var server *engine.ServerError
	require.ErrorAs(t, err, &server)
	require.Equal(t, engine.ClassUnreachable, server.Class)
}

// A node that serves nothing, and knows of nobody who does, is that of a cluster that is still being made
// or that lost its file of nodes: the same request may well be granted later.
func TestNodeOfAClusterWithoutSlotsIsRefusedInClearWords(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{Cluster: true})
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}})
	require.ErrorContains(t, err, "cluster")
	require.ErrorContains(t, err, "no slot")
	require.ErrorContains(t, err, s.Addr())
	var server *engine.ServerError
	require.ErrorAs(t, err, &server)
	require.True(t, server.Class.Transient(), "%v", server.Class)
	require.True(t, engine.SafeToRetry(err))
	all := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is of 7.0
	for i := range redistest.Slots {
		all = append(all, strconv.Itoa(i))
	}
	s.Do(t, all...)
	testkit.Eventually(t, "the cluster is whole", func() bool {
		return strings.Contains(s.Do(t, "CLUSTER", "INFO"), "cluster_state:ok")
	})
	e := testkit.OpenChecked(t, s.Addr())
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
}

func TestBorrowedClientWorksAndIsNotClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Run(t, redistest.Options{})
	client, err := rueidis.NewClient(engine.ClientOption(engine.Config{Addrs: []string{s.Addr()}, ClientName: "borrowed"}))
	require.NoError(t, err)
	defer client.Close()
	for range 3 { // one after the other
		e, err := engine.Open(testkit.Limited(t), engine.Config{Client: client})
		require.NoError(t, err)
		other, err := engine.Open(testkit.Limited(t), engine.Config{Client: client}) // and two at once
		require.NoError(t, err)
		require.NotEqual(t, e.ID(), other.ID())
		ls := testkit.Acquire(t, e.Lock("name", engine.WatchdogLease(2*time.Second)))
		f := other.Lock("name").AcquireAsync(testkit.Limited(t))
		testkit.Parked(t, s, "name", 1, 1, other)
		testkit.Eventually(t, "a renewal", func() bool { return e.Stats().Renewals.Sent > 0 })
		testkit.Release(t, ls)
		testkit.Release(t, testkit.Get(t, f))
		require.NoError(t, testkit.Close(e))
		require.NoError(t, testkit.Close(other))
		require.Empty(t, s.Keys(t))
		require.Equal(t, "PONG", apiPing(t, client), "the client lives on")
	}
	testkit.Eventually(t, "the engines' own connections are closed", func() bool {
		return strings.Count(s.Do(t, "CLIENT", "LIST"), "name=borrowed") <= 1
	})
}

func apiPing(t *testing.T, client rueidis.Client) string {
	t.Helper()
	text, err := client.Do(testkit.Limited(t), client.B().Ping().Build()).ToString()
	require.NoError(t, err)
	return text
}

func TestPrefixIsPutBeforeEveryNameAndNowhereElse(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	plain := testkit.OpenChecked(t, s.Addr())
	e := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.Prefix = "app:" })
	l := e.Lock("name")
	require.Equal(t, "name", l.Name())
	ls := testkit.Acquire(t, l)
	require.Equal(t, "name", ls.Name())
	require.Equal(t, []string{"app:name"}, s.Keys(t))
	require.Equal(t, "name", e.Held()[0].Name)
	_, err := l.TryAcquire(testkit.Limited(t))
	var held *engine.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "name", held.Name)
	require.NotContains(t, err.Error(), "app:")

	info, err := plain.Lock("app:name").Inspect(testkit.Limited(t))
	require.NoError(t, err)
	require.Equal(t, ls.OwnerID(), info.OwnerID, "the same lock by its whole name")
	f := plain.Lock("app:name").AcquireAsync(testkit.Limited(t))
	testkit.Parked(t, s, "app:name", 1, 1, plain) // and the same channel
	other := testkit.Acquire(t, plain.Lock("name"))
	testkit.Release(t, ls)
	testkit.Release(t, testkit.Get(t, f))
	testkit.Release(t, other)

	for _, kind := range []struct {
		name string
		of   func(*engine.Engine, string) *engine.Lock
	}{
		{"fenced", func(e *engine.Engine, name string) *engine.Lock { return e.FencedLock(name).Lock }},
		{"fair", func(e *engine.Engine, name string) *engine.Lock { return e.FairLock(name).Lock }},
		{"spin", func(e *engine.Engine, name string) *engine.Lock {
			return e.Lock(name, engine.Spin(time.Millisecond, time.Second))
		}},
		{"read", func(e *engine.Engine, name string) *engine.Lock { return e.RWLock(name).ReadLock() }},
		{"write", func(e *engine.Engine, name string) *engine.Lock { return e.RWLock(name).WriteLock() }},
	} {
		l := kind.of(e, kind.name)
		require.Equal(t, kind.name, l.Name())
		ls := testkit.Acquire(t, l)
		info, err := kind.of(plain, "app:"+kind.name).Inspect(testkit.Limited(t))
		require.NoError(t, err, kind.name)
		require.Equal(t, ls.OwnerID(), info.OwnerID, "%s: the same lock by its whole name", kind.name)
		require.Contains(t, s.Keys(t), "app:"+kind.name)
		for _, key := range s.Keys(t) {
			require.Contains(t, key, "app:", "%s: a key without the prefix", kind.name)
		}
		testkit.Release(t, ls)
	}

	require.ErrorIs(t, e.Lock(strings.Repeat("x", 1021)).Err(), engine.ErrName, "prefix and name together are the key")
	require.NoError(t, e.Lock(strings.Repeat("x", 1020)).Err())
	require.ErrorIs(t, e.Lock("").Err(), engine.ErrName, "a prefix is not a name")
}

func TestDatabaseIsAWorldOfItsOwn(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	zero := testkit.OpenChecked(t, s.Addr())
	three := testkit.OpenChecked(t, s.Addr(), func(cfg *engine.Config) { cfg.DB = 3 })
	byURL := testkit.OpenChecked(t, "redis://"+s.Addr()+"/3")
	testkit.Acquire(t, zero.Lock("name"))
	ls := testkit.Acquire(t, three.Lock("name"))
	_, err := byURL.Lock("name").TryAcquire(testkit.Limited(t))
	require.ErrorIs(t, err, engine.ErrHeld)
	require.Equal(t, []string{"name"}, s.Keys(t))
	f := byURL.Lock("name").AcquireAsync(testkit.Limited(t))
	testkit.Parked(t, s, "name", 1, 1, byURL)
	testkit.Release(t, ls)
	testkit.Within(t, f.Done(), testkit.Soon, "channels have no database")
	require.Equal(t, []string{"name"}, s.Keys(t), "database 0 is untouched")
	testkit.Release(t, testkit.Get(t, f))
	require.Contains(t, s.Do(t, "INFO", "keyspace"), "db0:keys=1")
	require.NotContains(t, s.Do(t, "INFO", "keyspace"), "db3:")

	_, err = engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr()}, DB: 4711})
	require.ErrorContains(t, err, " has no database 4711")
	var server *engine.ServerError
	require.ErrorAs(t, err, &server)
	require.Contains(t, server.Text, "DB index", "the server's own words")
}

func TestUnixSocketAndClientNameAreServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := redistest.Run(t, redistest.Options{Args: []string{"--unixsocket", path}})
	e := testkit.OpenChecked(t, "unix://"+path, func(cfg *engine.Config) { cfg.ClientName = "my-service" })
	testkit.Release(t, testkit.Acquire(t, e.Lock("name")))
	require.Contains(t, s.Do(t, "CLIENT", "LIST"), "name=my-service")
	require.Regexp(t, `addr=\[?`+regexp.QuoteMeta(path)+`:0`, s.Do(t, "CLIENT", "LIST"), "in brackets from Valkey 9 on")
}

// What is wrong with a URL is told without what may be secret in it.
func TestABadURLIsToldWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	for addr, says := range map[string]string{
		"http://127.0.0.1:6379":                                      "is not a redis://, rediss:// or unix:// URL",
		"redis://u:" + testkit.Secret + "@127.0.0.1:6379/jobs":       "redis://***@127.0.0.1:6379/jobs names a database that is no number",
		"redis://127.0.0.1:6379?dial_timeout=" + testkit.Secret:      "redis://127.0.0.1:6379?*** has a parameter that is not known, or a value that cannot be",
		"redis://127.0.0.1:6379/1/2":                                 "redis://127.0.0.1:6379/1/2 cannot be read",
		"redis://user:" + testkit.Secret + "%zz@127.0.0.1:6379/jobs": "is not a redis://, rediss:// or unix:// URL",
	} {
		_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{addr}})
		require.ErrorIs(t, err, engine.ErrConfig)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), testkit.Secret)
	}
}

// What is printed of a configuration is what was set.
func TestAConfigIsPrintedAsItWasSet(t *testing.T) {
	t.Parallel()
	cfg := engine.Config{
		Addrs: []string{"redis://u:" + testkit.Secret + "@127.0.0.1:6379"}, Password: testkit.Secret, TLS: &tls.Config{MinVersion: tls.VersionTLS12},
		CloseGrace: time.Second, Trace: func(context.Context, engine.Span) {},
	}
	require.Equal(t, "{Addrs:[redis://***@127.0.0.1:6379] Password:*** TLS:set CloseGrace:1s Trace:set}", cfg.String())
	require.Equal(t, "{}", engine.Config{}.String())
}

// Whoever gives an Open less time than a server is waited for learns whose answer did not come.
func TestAnOpenThatIsCutShortSaysWhoWasAsked(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // it answers nobody
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = engine.Open(ctx, engine.Config{Addrs: []string{"redis://:" + testkit.Secret + "@" + l.Addr().String()}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "holdfast: open: context deadline exceeded before an answer from ")
	require.ErrorContains(t, err, l.Addr().String())
	require.NotContains(t, err.Error(), testkit.Secret)
	_, err = engine.Open(ctx, engine.Config{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"}})
	require.EqualError(t, err, "holdfast: open: context deadline exceeded", "nobody was asked")
}

func TestSeveralAddressesOfASingleServerAreABadConfiguration(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{s.Addr(), "127.0.0.1:1"}})
	require.ErrorIs(t, err, engine.ErrConfig)
	require.EqualError(t, err, "holdfast: bad configuration: "+s.Addr()+" is a single server, and 2 addresses are given")
}
