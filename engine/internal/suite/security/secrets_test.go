package security_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// shows returns an error and all that it wraps, in every way in which it can be printed.
func shows(err error) string {
	text := fmt.Sprintf("%v %+v %#v %q %s", err, err, err, err, err)
	switch err := err.(type) { //nolint:errorlint // each error is looked at by itself
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			text += shows(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			if inner != nil {
				text += shows(inner)
			}
		}
	}
	return text
}

// C-158: an address that cannot be one is refused without the password that somebody has written into it.
func TestC158_ThePasswordIsInNoRefusalOfAnAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{
		"u:" + testkit.Secret + "@h:1", "u:" + testkit.Secret + "@h", ":" + testkit.Secret + "@h:1", "u:" + testkit.Secret + "@:1", "u@x:" + testkit.Secret,
		"u:" + testkit.Secret, "u:1" + testkit.Secret, "u:1:" + testkit.Secret, "u:" + testkit.Secret + ":1", ":" + testkit.Secret, "[::1]:" + testkit.Secret,
		"u:" + testkit.Secret + "@h:0", "u:@" + testkit.Secret, "u:p?" + testkit.Secret + "@h:1", "u:p@?" + testkit.Secret,
		"redis://u:" + testkit.Secret + "@h:port", "redis://u:%zz" + testkit.Secret + "@h:1", "redis://h:port?password=" + testkit.Secret,
		"redis://h:port?password=a@" + testkit.Secret, "redis://:" + testkit.Secret, "redis://u:" + testkit.Secret + "/x@h:1", "http://u:" + testkit.Secret + "@h:1",
		"redis://u:" + testkit.Secret + "@h:1/x", "redis://h:1/" + "?db=" + testkit.Secret,
	} {
		_, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{addr}})
		require.ErrorIs(t, err, engine.ErrConfig, "%s", addr)
		require.NotContains(t, shows(err), testkit.Secret, addr)
		cfg := engine.Config{Addrs: []string{addr, addr}}
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %s %q %d %x", cfg, cfg, cfg, cfg, cfg, cfg, cfg), testkit.Secret, addr)
	}
}

// C-158: every verb of fmt, for those that look at the fields, too.
func TestC158_ThePasswordIsInNothingThatFmtMakesOfAConfigOrItsOption(t *testing.T) {
	t.Parallel()
	cfg := engine.Config{Addrs: []string{"h:1"}, Username: "u", Password: testkit.Secret, MasterName: "m", SentinelPassword: testkit.Secret}
	plain := cfg
	plain.MasterName, plain.SentinelPassword = "", ""
	option := engine.ClientOption(plain)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%f", "%c", "%U"} {
		for what, v := range map[string]any{
			"config": cfg, "pointer": &cfg, "slice": []engine.Config{cfg}, "field": struct{ C engine.Config }{cfg},
			"option": option, "option's pointer": &option,
		} {
			shown := fmt.Sprintf(verb, v)
			require.NotContains(t, shown, testkit.Secret, "%s %s", verb, what)
			require.NotContains(t, strings.ToLower(shown), fmt.Sprintf("%x", testkit.Secret), "%s %s", verb, what)
		}
	}
}

// C-158: a server that does not know a command says so together with its arguments, cut, or in other quotes. Those of the
// handshake hold the password.
func TestC158_ThePasswordIsNotInWhatAServerEchoes(t *testing.T) {
	t.Parallel()
	echoes := map[string]func(args []string) string{
		"Whole":  func(args []string) string { return strings.Join(args, "' '") },
		"Cut":    func(args []string) string { return strings.Join(args, "` `")[:len(strings.Join(args, "` `"))-9] },
		"Quoted": func(args []string) string { return strings.ReplaceAll(fmt.Sprintf("%q", args), "-", `\x2d`) },
		"Raw":    func(args []string) string { return "\x1b[2J\u202e" + strings.Join(args, "\v") },
	}
	for name, echo := range echoes {
		for _, known := range []int64{0, 1, 3} { // handshakes that are answered before
			t.Run(fmt.Sprintf("%s/%d", name, known), func(t *testing.T) {
				t.Parallel()
				var hellos atomic.Int64
				refuse := func(args []string) (string, bool) {
					if word := strings.ToUpper(args[0]); word != "HELLO" && word != "AUTH" || hellos.Add(1) <= known {
						return "", false
					}
					return "-ERR wrong arguments: " + echo(args) + "\r\n", true
				}
				logger, log := testkit.Logger()
				for _, cfg := range []engine.Config{
					{Username: "user", Password: testkit.Secret},
					{MasterName: "m", SentinelUsername: "user", SentinelPassword: testkit.Secret},
				} {
					hellos.Store(0)
					f := startFake(t, nil, refuse)
					cfg.Addrs, cfg.Logger = []string{f.addr()}, logger
					e, err := engine.Open(testkit.Limited(t), cfg)
					if err == nil { // all that it needed was answered
						_, err = e.Lock("a", engine.MaxWait(1)).TryAcquire(testkit.Limited(t))
						require.NoError(t, e.Close(testkit.Limited(t)))
					}
					require.Error(t, err)
					text := shows(err)
					for part := len(testkit.Secret); part > 4; part-- {
						require.NotContains(t, text, testkit.Secret[:part])
					}
					require.NotContains(t, text, testkit.Secret[7:])
					require.False(t, strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
					if known == 0 {
						require.Contains(t, text, "wrong arguments: ", "the rest is said")
						var server *engine.ServerError
						require.True(t, errors.As(err, &server))
					}
				}
				require.Empty(t, log.With(testkit.Secret[:5]))
			})
		}
	}
}

// C-158: what is not even a reply is logged as it begins, and that may be the password.
func TestC158_ThePasswordIsNotInTheLogOfWhatAServerSent(t *testing.T) {
	if testing.Short() {
		t.Skip("needs no server, but fourteen seconds")
	}
	t.Parallel()
	var bad atomic.Bool
	f := startFake(t, nil, func(args []string) (string, bool) {
		switch word := strings.ToUpper(args[0]); {
		case word == "HELLO" && bad.Load():
			return args[len(args)-3] + "\r\n", true // the password alone, and no type before it
		case word == "TIME":
			return "*2\r\n" + bulk("1700000000") + bulk("0"), true
		case word == "EVALSHA":
			bad.Store(true)
			return "?\r\n", true
		}
		return "", false
	})
	logger, log := testkit.Logger()
	e := testkit.Open(t, f.addr(), func(c *engine.Config) { c.Username, c.Password, c.Logger = "user", testkit.Secret, logger })
	testkit.Eventually(t, "the log says what the server has sent to a handshake", func() bool {
		_, err := e.Lock("a").TryAcquire(testkit.Limited(t))
		require.Error(t, err)
		require.NotContains(t, shows(err), testkit.Secret[:5])
		return len(log.With("a connection was closed for what the server sent", "***")) > 0
	})
	require.Empty(t, log.With(testkit.Secret[:5]))
}

// What a server says is on one line, moves no cursor, and is cut: in the error of an operation, too.
func TestServerTextInTheErrorOfAnOperationIsPrintableAndCut(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, func(args []string) (string, bool) {
		switch strings.ToUpper(args[0]) {
		case "TIME":
			return "*2\r\n" + bulk("1700000000") + bulk("0"), true
		case "EVALSHA", "PING":
			return "-ERR \x1b[2J\u202e" + strings.Repeat("x", 5000) + "\r\n", true
		}
		return "", false
	})
	e := testkit.Open(t, f.addr())
	_, err := e.Lock("a").TryAcquire(testkit.Limited(t))
	for _, err := range []error{err, e.Ping(testkit.Limited(t))} {
		require.Error(t, err)
		require.Contains(t, err.Error(), `\x1b[2J\u202exxx`)
		require.Less(t, len(err.Error()), 500)
		require.False(t, strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }))
	}
}

// C-158: what a server says of itself may be the password, wherever it stands.
func TestC158_ThePasswordIsNotInWhatAServerSaysOfItself(t *testing.T) {
	t.Parallel()
	info := func(text string) string { return bulk("redis_version:7.0.0\r\n" + text) }
	slots := func(reply string) func(args []string) (string, bool) {
		return func(args []string) (string, bool) {
			switch strings.ToUpper(args[0]) {
			case "INFO":
				return info("redis_mode:cluster\r\n"), true
			case "CLUSTER":
				if strings.EqualFold(args[1], "SLOTS") {
					return reply, true
				}
			}
			return "", false
		}
	}
	for name, answer := range map[string]func(args []string) (string, bool){
		"TheTable": slots("+" + testkit.Secret + "\r\n"),
		"AHost":    slots("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n" + bulk(testkit.Secret+" x") + ":1\r\n"),
		"ItsVersion": func(args []string) (string, bool) {
			return bulk("redis_version:" + testkit.Secret + "\r\n"), strings.EqualFold(args[0], "INFO")
		},
		"WhatItEvicts": func(args []string) (string, bool) {
			return info("redis_mode:standalone\r\nmaxmemory:1\r\nmaxmemory_policy:" + testkit.Secret + "\r\n"), strings.EqualFold(args[0], "INFO")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logger, log := testkit.Logger()
			civil := grants(nil)
			f := startFake(t, nil, func(args []string) (string, bool) {
				if reply, ok := answer(args); ok {
					return reply, true
				}
				if strings.EqualFold(args[0], "TIME") {
					return civil(args)
				}
				return "", false
			})
			e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{f.addr()}, Password: testkit.Secret, Logger: logger})
			var text string
			if err != nil {
				text = shows(err)
				require.Contains(t, text, "CLUSTER SLOTS")
			} else {
				if name == "WhatItEvicts" {
					testkit.Eventually(t, "the policy is told", func() bool { return len(log.With("evict")) > 0 })
				}
				text = fmt.Sprintf("%+v", e.Stats())
				require.NoError(t, e.Close(testkit.Limited(t)))
			}
			require.NotContains(t, text, testkit.Secret)
			require.Empty(t, log.With(testkit.Secret))
		})
	}
	t.Run("WhoHasSeenAGrant", func(t *testing.T) {
		t.Parallel()
		s := redistest.Run(t, redistest.Options{Args: []string{"--requirepass", testkit.Secret}})
		p := faultproxy.Run(t, s.Addr())
		e, err := engine.Open(testkit.Limited(t), engine.Config{Addrs: []string{p.Addr()}, Password: testkit.Secret})
		require.NoError(t, err)
		p.Refuse(faultproxy.Command("WAIT"), -1, "NOPERM "+testkit.Secret)
		_, err = e.Lock("a", engine.WaitReplicas(1, time.Second)).Acquire(testkit.Limited(t))
		require.ErrorIs(t, err, engine.ErrNotReplicated)
		require.Contains(t, shows(err), "NOPERM ***")
		require.NotContains(t, shows(err), testkit.Secret)
		require.NoError(t, e.Close(testkit.Limited(t)))
	})
}
