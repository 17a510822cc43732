package resp

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/clock"
)

// replyWords is a reply of texts.
func replyWords(words ...string) string {
	text := "*" + strconv.Itoa(len(words)) + "\r\n"
	for _, w := range words {
		text += "$" + strconv.Itoa(len(w)) + "\r\n" + w + "\r\n"
	}
	return text
}

// What one sentinel says: of the master, how new that is, and of the others. What it may not be asked counts as old.
func TestASentinelsAnswerIsRead(t *testing.T) {
	address, epoch := replyWords("10.0.0.1", "6379"), replyWords("name", "m", "config-epoch", "7")
	others := "*3\r\n" + replyWords("ip", "10.0.0.2", "port", "26379") + replyWords("ip", "no host", "port", "26379") + replyWords("ip", "10.0.0.3", "port", "0")
	for name, c := range map[string]struct {
		address, master, sentinels string
		want                       finding
		cause                      error
	}{
		"All": {
			address, epoch, others, finding{addr: "10.0.0.1:6379", epoch: 7, peers: []string{"10.0.0.2:26379"}}, nil,
		},
		"OnlyTheAddress": {address, "-NOPERM no\r\n", "-NOPERM no\r\n", finding{addr: "10.0.0.1:6379"}, nil},
		"NoNumber":       {address, replyWords("config-epoch", "x"), "*0\r\n", finding{addr: "10.0.0.1:6379"}, nil},
		"IPv6":           {replyWords("::1", "6379"), epoch, "*0\r\n", finding{addr: "[::1]:6379", epoch: 7}, nil},
		"NoSuchMaster":   {"*-1\r\n", epoch, others, finding{err: &ServerError{Class: ClassOther}}, ErrNoSuchMaster},
		"NoSentinel": {
			"-ERR unknown command 'SENTINEL'\r\n", epoch, others,
			finding{err: &ServerError{Class: ClassOther}},
			ErrNotSentinel,
		},
		"Refused": {"-NOPERM no\r\n", epoch, others, finding{err: &ServerError{Class: ClassNoPerm}}, nil},
		"Silent":  {fakeBroken, epoch, others, finding{err: &ServerError{Class: ClassUnknown}}, nil},
		"NoPort":  {replyWords("10.0.0.1"), epoch, others, finding{err: &ServerError{Class: ClassOther}}, nil},
		"PortZero": {
			replyWords("10.0.0.1", "0"), epoch, others, finding{err: &ServerError{Class: ClassOther}}, nil,
		},
		"PortTooLarge": {
			replyWords("10.0.0.1", "65536"), epoch, others, finding{err: &ServerError{Class: ClassOther}}, nil,
		},
		"NoHost": {replyWords("", "6379"), epoch, others, finding{err: &ServerError{Class: ClassOther}}, nil},
		"HostOfTwoLines": {
			replyWords("a\nb", "6379"), epoch, others, finding{err: &ServerError{Class: ClassOther}}, nil,
		},
		"TheOtherWayRound": {
			replyWords("6379", "10.0.0.1"), epoch, others, finding{err: &ServerError{Class: ClassOther}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeServer{says: func(_ *fakeConn, cmd []string) string {
				require.Equal(t, []string{"SENTINEL", "m"}, []string{cmd[0], cmd[2]})
				return map[string]string{"GET-MASTER-ADDR-BY-NAME": c.address, "MASTER": c.master, "SENTINELS": c.sentinels}[cmd[1]]
			}}
			f := &follower{name: "m", ctx: t.Context()}
			got := f.askOne(&endpoint{addr: "s:1", client: s})
			if c.want.err == nil {
				require.Equal(t, c.want, got)
				return
			}
			require.Empty(t, got.addr, "who names the master")
			require.Equal(t, c.want.err.Class, got.err.Class, "%v", got.err)
			if c.cause != nil {
				require.ErrorIs(t, got.err, c.cause)
			}
		})
	}
}

// What was found moves the node if it is another master, and, where it is weak, if the one that is followed is silent.
func TestAFindingMovesTheNodeOrDoesNot(t *testing.T) {
	other := finding{addr: "b:2", epoch: 9, peers: []string{"s:1", "s:2"}}
	weak := other
	weak.weak = true
	for name, c := range map[string]struct {
		found         finding
		silent, ended bool
		want          bool
	}{
		"Another":           {other, false, false, true},
		"TheSame":           {finding{addr: "a:1", epoch: 9}, false, false, false},
		"None":              {finding{err: errOlder}, false, false, false},
		"WeakOfALivingOne":  {weak, false, false, false},
		"WeakOfASilentOne":  {weak, true, false, true},
		"AnotherAfterClose": {other, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{says: func(*fakeConn, []string) string { return map[bool]string{true: fakeBroken}[c.silent] }}
				var told []string
				f := &follower{
					name: "m", peers: make(map[string]*endpoint), told: func(addr string) { told = append(told, addr) },
					now: followed{"a:1", 3}, ask: func(string) (rueidis.Client, error) { return s, nil },
				}
				var cancel context.CancelFunc
				f.ctx, cancel = context.WithCancel(t.Context())
				defer cancel()
				if c.ended {
					cancel()
				}
				n := fakeNode(t, clock.NewFake(1), map[string]*fakeServer{"a:1": s})
				n.subs, n.follow, f.node = &replaced{}, f, n
				require.Equal(t, c.want, f.follow(c.found))
				f.wg.Wait()
				if !c.want {
					require.Equal(t, "a:1", n.Addr())
					require.Empty(t, told)
					return
				}
				require.Equal(t, "b:2", n.Addr())
				require.Equal(t, []string{"b:2"}, told)
				require.Equal(t, followed{"b:2", 9}, f.now)
				require.Equal(t, map[string]bool{"s:1": true, "s:2": true}, f.named)
				require.False(t, f.follow(c.found), "it is there")
			})
		})
	}
}

// How releases travel in a cluster is the fleet's choice, or follows from the version.
func TestReleasesTravelAsAskedForOrAsTheVersionAllows(t *testing.T) {
	plain, sharded := pubSubMode{publish: "PUBLISH"}, pubSubMode{publish: "SPUBLISH", sharded: true}
	for _, c := range []struct {
		want    PubSub
		version string
		mode    pubSubMode
	}{
		{PubSubAuto, "6.2.14", plain},
		{PubSubAuto, "7.0.0", sharded},
		{PubSubAuto, "8.1", sharded},
		{PubSubAuto, "", plain},
		{PubSubSharded, "6.2.14", sharded},
		{PubSubSharded, "7.0.0", sharded},
		{PubSubPlain, "6.2.14", plain},
		{PubSubPlain, "7.0.0", plain},
	} {
		require.Equal(t, c.mode, clusterMode(c.want, c.version), "%d of %q", c.want, c.version)
	}
}

// Where a redirection leads to. What leads nowhere is none.
func TestARedirectionIsReadOrIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"MOVED 5 10.0.0.1:6379":                "10.0.0.1:6379",
		"MOVED 16383 redis.example:1 and more": "redis.example:1",
		"MOVED 5 ::1:6379":                     "[::1]:6379",
		"MOVED 5 [::1]:6379":                   "[::1]:6379",
		"MOVED 5 :6379":                        "asked:6379",
		"MOVED 5 ?:6379":                       "asked:6379",
		"ASK 5 10.0.0.1:6379":                  "",
		"MOVED":                                "",
		"MOVED 16384 10.0.0.1:6379":            "",
		"MOVED -1 10.0.0.1:6379":               "",
		"MOVED x 10.0.0.1:6379":                "",
		"MOVED 5 10.0.0.1":                     "",
		"MOVED 5 10.0.0.1:0":                   "",
		"MOVED 5 10.0.0.1:65536":               "",
		"MOVED 5 10.0.0.1:x":                   "",
		"MOVED 5 a\"b:6379":                    "",
	} {
		require.Equal(t, want, redirection(text, "MOVED ", "asked:7000"), text)
	}
}
