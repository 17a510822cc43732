package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
)

// parseFlags is what the flags of `loadgen run` come to.
func parseFlags(args []string) (c config.Config, err error) {
	cmd := runCommand(func(_ context.Context, got config.Config) error { c = got; return nil })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...))
	err = cmd.Execute()
	return c, err
}

func TestParseFlags(t *testing.T) {
	t.Run("Defaults", func(t *testing.T) {
		c, err := parseFlags(nil)
		require.NoError(t, err)
		require.Equal(t, "lock", c.Scenario)
		require.Equal(t, 1024, c.Inflight)
		require.Equal(t, 2, c.Clients)
		require.Equal(t, 16*1024, c.Keys)
		require.Equal(t, 10*time.Second, c.Duration)
		require.Equal(t, 1, c.Rounds)
		require.NotEmpty(t, c.Prefix)
	})
	for _, tc := range []struct {
		name, args string
		check      func(*testing.T, config.Config)
	}{
		{"OneInFlightHasOneClient", "--inflight 1", func(t *testing.T, c config.Config) {
			require.Equal(t, 1, c.Clients)
			require.Equal(t, 16, c.Keys)
		}},
		{"SyncCallersAreTheOperationsInFlight", "--api sync --clients 77", func(t *testing.T, c config.Config) {
			require.Equal(t, 77, c.Inflight)
			require.Equal(t, 16*77, c.Keys)
		}},
		{"SyncTakesInflightForClients", "--api sync --inflight 9", func(t *testing.T, c config.Config) {
			require.Equal(t, 9, c.Clients)
		}},
		{"SyncDefault", "--api sync", func(t *testing.T, c config.Config) { require.Equal(t, 512, c.Clients) }},
		{"HoldDefault", "--scenario hold", func(t *testing.T, c config.Config) { require.Equal(t, 10_000, c.Locks) }},
		{"Contend", "--scenario contend", func(t *testing.T, c config.Config) {
			require.Equal(t, "sync", c.API)
			require.Equal(t, []int{64, 64, 1, 1, 1}, []int{c.Clients, c.Inflight, c.Keys, c.Engines, c.Rounds})
		}},
		{"ContendAsync", "--scenario contend --api async --clients 7 --keys 7 --engines 7 --hold 30us", func(t *testing.T, c config.Config) {
			require.Equal(t, "async", c.API)
			require.Equal(t, 7, c.Inflight)
			require.Equal(t, 30*time.Microsecond, c.Hold)
		}},
		{"ContendBesideAMutex", "--scenario contend --mutex", func(t *testing.T, c config.Config) { require.Equal(t, 5, c.Rounds) }},
		{"ContendInSeveralProcesses", "--scenario contend --addr a:1 --witness w --witness-procs 4", func(t *testing.T, c config.Config) {
			require.Equal(t, 30*time.Second, c.WitnessWait)
			require.False(t, c.PrefixGiven)
		}},
		{"Fair", "--scenario fair", func(t *testing.T, c config.Config) {
			require.Equal(t, []string{"fair", "sync"}, []string{c.Kind, c.API})
			require.Equal(t, []int{64, 1}, []int{c.Clients, c.Keys})
		}},
		{"ReadersAndWriters", "--scenario rw --api async", func(t *testing.T, c config.Config) {
			require.Equal(t, []string{"rw", "async"}, []string{c.Kind, c.API})
			require.InDelta(t, 0.9, c.ReadShare, 0)
		}},
		{"FencedBesideAMutex", "--scenario fenced --mutex --engines 4", func(t *testing.T, c config.Config) { require.Equal(t, "fenced", c.Kind) }},
		{"Semaphore", "--scenario semaphore --chaos client", func(t *testing.T, c config.Config) {
			require.Equal(t, []int{8, 3, 64, 1}, []int{c.Permits, c.Take, c.Clients, c.Keys})
			require.Equal(t, []string{"semaphore", "sync"}, []string{c.Kind, c.API})
			require.Equal(t, 2*time.Second, c.GapBound())
		}},
		{"Permits", "--scenario permits --lease 3s --chaos client --permits 5", func(t *testing.T, c config.Config) {
			require.Equal(t, []int{5, 3, 64, 1}, []int{c.Permits, c.Take, c.Clients, c.Keys})
			require.Equal(t, []string{"permits", "sync"}, []string{c.Kind, c.API})
			require.Equal(t, 5*time.Second, c.GapBound())
		}},
		{"SemaphoreOfTwo", "--scenario semaphore --permits 2", func(t *testing.T, c config.Config) { require.Equal(t, 2, c.Take) }},
		{"Kind", "--kind fair --yardstick", func(t *testing.T, c config.Config) { require.Equal(t, "fair", c.Kind) }},
		{"Yardstick", "--yardstick", func(t *testing.T, c config.Config) { require.Equal(t, 5, c.Rounds) }},
		{"PprofPortIsOnLoopback", "--pprof :6060", func(t *testing.T, c config.Config) {
			require.Equal(t, "127.0.0.1:6060", c.Pprof)
		}},
		{"PprofPublicIfAsked", "--pprof :6060 --pprof-public", func(t *testing.T, c config.Config) {
			require.Equal(t, ":6060", c.Pprof)
		}},
		{"Addresses", "--addr a:1 --addr [::1]:6379", func(t *testing.T, c config.Config) {
			require.Equal(t, []string{"a:1", "[::1]:6379"}, c.Addrs)
		}},
		{"Cluster", "--cluster 3 --replicas 2", func(t *testing.T, c config.Config) {
			require.Equal(t, []int{3, 2, 3}, []int{c.Cluster, c.Replicas, c.Clients})
		}},
		{"Sentinel", "--sentinel --chaos kill", func(t *testing.T, c config.Config) { require.Equal(t, 1, c.Replicas) }},
		{"Chaos", "--cluster 3 --replicas 1 --chaos slots,kill --chaos-every 1s", func(t *testing.T, c config.Config) {
			require.Equal(t, []string{"slots", "kill"}, c.Chaos)
			require.EqualValues(t, 1, c.ChaosSeed)
		}},
		{"ClientOfAServerThatIsThere", "--chaos client --lease 8s --addr h:1", func(t *testing.T, c config.Config) {
			require.True(t, c.OnlyKillsClient())
			require.Equal(t, 10*time.Second, c.GapBound())
		}},
		{"URL", "--addr redis://user@localhost:6379/2", func(t *testing.T, c config.Config) { require.Len(t, c.Addrs, 1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := parseFlags(strings.Fields(tc.args))
			require.NoError(t, err)
			tc.check(t, c)
		})
	}
}

func TestParseFlagsRefuses(t *testing.T) {
	for _, tc := range []struct{ args, says string }{
		{"now", `unexpected argument "now"`},
		{"--nonsense", "unknown flag"},
		{"--json --duration 2s", `--json wants a file, and "--duration" comes behind it`},
		{"--json --yardstick", `--json wants a file, and "--yardstick" comes behind it`},
		{"--duration 5", "duration"},
		{"--permits 3", "--permits has no effect with --scenario lock"},
		{"--scenario contend --take 3", "--take has no effect with --scenario contend"},
		{"--scenario semaphore --permits 0", "--permits must be between 1"},
		{"--scenario semaphore --permits 3 --take 4", "--take must be between 0 and 3"},
		{"--scenario semaphore --lease 5s", "--lease has no effect"},
		{"--count 3", "--count has no effect with --scenario lock"},
		{"--scenario latch --count 0", "--count must be between 1"},
		{"--scenario latch --witness w", "--witness has no effect"},
		{"--scenario latch --lease 5s", "--lease has no effect"},
		{"--scenario latch --chaos client --duration 3s", "--duration must be at least 4s, not 3s"},
		{"--scenario permits --keys 2", "--keys has no effect"},
		{"--scenario permits --mutex", "--mutex has no effect"},
		{"--scenario permits --kind fair", "--kind has no effect"},
		{"--scenario permits --chaos client --lease 9s", "--duration must be at least --lease and 2s, not 10s"},
		{"--scenario semaphore --keys 2", "--keys has no effect"},
		{"--scenario semaphore --mutex", "--mutex has no effect"},
		{"--scenario semaphore --chaos client --permits 5", "--permits must be at least twice --take, 6, not 5"},
		{"--scenario semaphore --chaos client --duration 3s", "--duration must be at least 4s, not 3s"},
		{"--duration 0s", "--duration must be more than 0"},
		{"--duration -1s", "--duration must be more than 0"},
		{"--warmup -1s", "--warmup"},
		{"--lease 999ms", "--lease"},
		{"--lease 1s1us", "whole milliseconds"},
		{"--lease 1000000h", "--lease"},
		{"--inflight 0", "--inflight must be between 1"},
		{"--inflight many", "invalid"},
		{"--inflight 99999999", "--inflight"},
		{"--clients 0", "--clients must be at least 1"},
		{"--clients -1", "--clients"},
		{"--clients 9 --inflight 8", "--clients 9 is more than --inflight 8"},
		{"--api sync --clients 9 --inflight 8", "give one of them"},
		{"--api both", "--api must be one of"},
		{"--engines 0", "--engines"},
		{"--engines 3 --inflight 2", "--engines 3"},
		{"--keys 0", "--keys"},
		{"--keys 1023", "--keys 1023 is less than"},
		{"--locks -1", "--locks"},
		{"--rate -1", "--rate"},
		{"--rate NaN", "--rate"},
		{"--rate 1e12", "--rate"},
		{"--rounds 3", "needs --yardstick or --mutex"},
		{"--yardstick --rounds 0", "--rounds"},
		{"--scenario nap", "--scenario must be one of contend, fair, fenced, hold, latch, lock, multi, permits, rw"},
		{"--scenario hold --locks 0", "--locks must be at least 1"},
		{"--scenario hold --yardstick", "--yardstick has no effect"},
		{"--scenario hold --rate 3", "--rate has no effect"},
		{"--kind pink", "--kind must be one of lock, spin, fenced, fair, read, write"},
		{"--scenario contend --kind read", "readers do not exclude each other"},
		{"--scenario hold --kind fair", "--kind has no effect"},
		{"--scenario fair --kind fair", "--kind has no effect"},
		{"--scenario fenced --yardstick", "--yardstick has no effect"},
		{"--scenario multi --mutex", "--mutex has no effect"},
		{"--scenario multi --kind fair", "--kind has no effect"},
		{"--scenario contend --multi-names 2", "--multi-names has no effect"},
		{"--scenario multi --multi-names 5 --keys 4", "--multi-names 5 is more than --keys 4"},
		{"--scenario multi --multi-names 0", "--multi-names must be"},
		{"--scenario rw --mutex", "--mutex has no effect"},
		{"--scenario rw --witness w", "it knows one holder of a key, and readers share"},
		{"--scenario rw --read-share 1.1", "--read-share must be between 0 and 1"},
		{"--scenario rw --read-share NaN", "--read-share must be between 0 and 1"},
		{"--read-share 0.5", "--read-share has no effect"},
		{"--scenario fair --clients 3 --keys 4", "each key needs a caller"},
		{"--hold 1ms", "--hold has no effect with --scenario lock"},
		{"--mutex", "--mutex has no effect"},
		{"--scenario hold --witness w", "--witness has no effect"},
		{"--scenario contend --rate 3", "--rate has no effect"},
		{"--scenario contend --yardstick", "--yardstick has no effect"},
		{"--scenario contend --inflight 3", "--inflight has no effect"},
		{"--scenario contend --locks 3", "--locks has no effect"},
		{"--scenario contend --hold -1ms", "--hold"},
		{"--scenario contend --hold 1h", "--hold"},
		{"--scenario contend --clients 3 --keys 4", "each key needs a caller"},
		{"--scenario contend --clients 3 --engines 4", "--engines 4 is more"},
		{"--scenario contend --clients 0", "--clients must be at least 1"},
		{"--scenario contend --keys 0", "--keys must be at least 1"},
		{"--scenario contend --rounds 3", "needs --yardstick or --mutex"},
		{"--scenario contend --witness-procs 2", "needs --witness"},
		{"--scenario contend --witness w --witness-procs 2", "needs --addr"},
		{"--scenario contend --witness w --witness-procs 65", "--witness-procs"},
		{"--scenario contend --witness w --witness-wait 0s", "--witness-wait"},
		{"--check-server maybe", "--check-server"},
		{"--cluster 0", "--cluster must be between 1"},
		{"--cluster 17", "--cluster must be between 1"},
		{"--cluster 3 --addr h:1", "give one of them"},
		{"--cluster 3 --replicas 4", "--replicas must be between 0 and 3"},
		{"--cluster 3 --listen 4", "--listen is not for a cluster"},
		{"--listen -1", "--listen must be between 0 and 100000"},
		{"--replicas 1", "--replicas needs --cluster or --sentinel"},
		{"--sentinel --addr h:1", "give one of them"},
		{"--sentinel --cluster 3", "two topologies"},
		{"--sentinel --replicas 0", "--replicas must be at least 1 with --sentinel"},
		{"--sentinel --chaos slots", "--chaos slots needs --cluster"},
		{"--scenario contend --sentinel --witness w --witness-procs 2", "give --addr"},
		{"--chaos client --lease 5s --duration 6s", "--duration must be at least --lease and 2s"},
		{"--chaos client --lease 1s --rate 3", "callers rest"},
		{"--chaos client --lease 1s --locks 3", "--locks that are kept"},
		{"--chaos client --lease 1s --scenario hold", "has no effect with --scenario hold"},
		{"--chaos client --lease 1s --scenario contend --mutex", "leave --mutex away"},
		{"--chaos client --lease 1s --scenario contend --addr h:1 --witness w --witness-procs 2", "leave --witness-procs away"},
		{"--chaos client,pause --lease 1s --addr h:1", "must be loadgen's own"},
		{"--chaos boom", "--chaos must be one or more of slots, pause"},
		{"--chaos=", "--chaos needs --chaos with one or more of"},
		{"--chaos-every 1s", "--chaos-every needs --chaos"},
		{"--chaos-seed 2", "--chaos-seed needs --chaos"},
		{"--chaos pause,pause", "--chaos names pause twice"},
		{"--chaos pause --chaos-every 1ms", "--chaos-every must be between"},
		{"--chaos pause --addr h:1", "must be loadgen's own"},
		{"--chaos pause --yardstick", "leave --yardstick away"},
		{"--chaos slots", "--chaos slots needs --cluster with at least 2 masters"},
		{"--chaos slots --cluster 1", "--chaos slots needs --cluster with at least 2 masters"},
		{"--chaos failover --cluster 3", "--chaos failover needs --sentinel, or --cluster with --replicas"},
		{"--chaos pause,kill --cluster 3", "--chaos kill needs --sentinel, or --cluster with --replicas"},
		{"--chaos kill --cluster 2 --replicas 1", "--chaos kill needs --cluster with at least 3 masters"},
		{"--scenario contend --cluster 3 --witness w --witness-procs 2", "give --addr"},
		{"--prefix {x}", "--prefix"},
		{"--addr localhost", "must be host:port"},
		{"--addr localhost:0", "bad port"},
		{"--addr localhost:66000", "bad port"},
		{"--addr :6379", "needs a host"},
		{"--addr http://localhost:6379", "not a redis://"},
		{"--addr redis://h:1 --addr h:2", "one URL"},
		{"--tls", "--tls needs --addr"},
		{"--tls --addr redis://h:1", "--tls and a URL that is not rediss:// disagree"},
		{"--tls-ca f --addr h:1", "--tls-ca needs --tls, or a rediss:// URL"},
		{"--tls-insecure --addr redis://h:1", "--tls-insecure needs --tls"},
		{"--tls --tls-cert f --addr h:1", "--tls-cert and --tls-key belong together"},
		{"--tls --tls-insecure --tls-ca f --addr h:1", "--tls-insecure checks nothing"},
		{"--tls --tls-ca /no/such/file --addr h:1", "--tls-ca"},
		{"--tls --tls-ca flags_test.go --addr h:1", `--tls-ca "flags_test.go" has no certificate in PEM`},
		{"--tls --tls-cert flags_test.go --tls-key flags_test.go --addr h:1", "--tls-cert"},
		{"--master-name m", "--master-name needs --addr"},
		{"--sentinel-user u --addr h:1", "--sentinel-user and --sentinel-password-file need --master-name"},
		{"--sentinel-user u --addr h:1 --master-name m", `--sentinel-user "u" needs a password`},
		{"--sentinel-no-tls --tls --addr h:1", "--sentinel-no-tls needs --master-name"},
		{"--pprof 6060", "--pprof"},
		{"--pprof :http-alt-x", "--pprof"},
		{"--pprof 0.0.0.0:6060", "--pprof-public"},
		{"--pprof [::]:6060", "--pprof-public"},
		{"--pprof-public", "needs --pprof"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			_, err := parseFlags(strings.Fields(tc.args))
			require.ErrorContains(t, err, tc.says)
		})
	}
	t.Run("APasswordIsNotRepeated", func(t *testing.T) {
		for _, addr := range []string{
			"redis://u:secret@h:port", "http://u:secret@h:1", "x://h?password=secret", "redis://h:port?password=a@secret",
			"redis://u:p?secret@h:1", "u:secret@h:1", "u:secret@h", "redis://u:secret@h:1", "redis://:secret@h:1",
		} {
			_, err := parseFlags([]string{"--addr", addr})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "secret")
		}
	})
}

// A password comes from a file or from the environment: an argument is seen by whoever lists the processes.
func TestThePasswordIsNoArgument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("of the file\r\nnot this"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, tc := range []struct{ args, env, password, says string }{
		{"--addr h:1", "", "", ""},
		{"--addr h:1", "of the environment", "of the environment", ""},
		{"--addr redis://user@h:1", "of the environment", "of the environment", ""},
		{"--addr h:1 --user u", "of the environment", "of the environment", ""},
		{"--addr h:1 --user u --password-file " + file, "of the environment", "of the file", ""},
		{"", "of the environment", "", ""},
		{"--addr h:1 --user u", "", "", "needs a password"},
		{"--addr h:1 --password-file " + empty, "x", "", "is empty"},
		{"--addr h:1 --password-file " + empty + "x", "x", "", "--password-file"},
		{"--user u", "x", "", "need --addr"},
		{"--addr redis://u:secret@h:1", "", "", "--password-file"},
		{"--addr h:1 --password x", "", "", "unknown flag"},
	} {
		t.Setenv(passwordVar, tc.env)
		t.Setenv(sentinelPasswordVar, "theirs")
		c, err := parseFlags(strings.Fields(tc.args))
		if tc.says != "" {
			require.ErrorContains(t, err, tc.says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.password, c.Password, tc.args)
		require.Empty(t, c.SentinelPassword, "it has no sentinels")
	}
	for _, args := range []string{"--addr h:1 --master-name m --sentinel-user u", "--addr redis://h:1?addr=i:1&master_set=m"} {
		c, err := parseFlags(strings.Fields(args))
		require.NoError(t, err)
		require.Equal(t, "theirs", c.SentinelPassword)
	}
}
