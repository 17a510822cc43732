package resp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/require"
)

func TestPrintableLeavesOrdinaryTextAndNothingThatSpeaksToATerminal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ERR unknown command 'X', with args beginning with: \"a\"", "Zürich, 東京"} {
		require.Equal(t, text, Printable(text))
	}
	for text, want := range map[string]string{
		"a\nlevel=ERROR\r": `a\nlevel=ERROR\r`,
		"\x1b[2J\x00\a":    `\x1b[2J\x00\a`,
		"\u009b2J\u0085":   `\u009b2J\u0085`,
		"a\u202eb\u2066c":  `a\u202eb\u2066c`,
		"\u2028\u200f":     `\u2028\u200f`,
		"a\xffb\xc3":       `a\xffb\xc3`,
	} {
		require.Equal(t, want, Printable(text))
	}
	for _, long := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\x1b", 1<<20), strings.Repeat("東", 1<<18), strings.Repeat("\U000e0001", 1<<18)} {
		got := Printable(long)
		require.LessOrEqual(t, len(got), mostText+16)
		require.True(t, utf8.ValidString(got))
		require.True(t, strings.HasSuffix(got, "…"))
		require.False(t, strings.ContainsFunc(got, unicode.IsControl))
	}
}

// Each way on which the text of a server, or of what connects to it, enters an error.
func TestServerTextInErrorsIsPrintableAndCut(t *testing.T) {
	t.Parallel()
	const bad = "\x1b[2J\nlevel=ERROR \u202e"
	words := bad + strings.Repeat("x", 10_000)
	reply := mock.Result(mock.RedisError(words)).Error()
	_, said := rueidis.IsRedisErr(reply)
	require.True(t, said)
	for name, err := range map[string]*ServerError{
		"classify":             classify(reply),
		"classifyNoAnswer":     classify(errors.New(words)),
		"unreachable":          unreachable(reply),
		"unreachableTransport": unreachable(errors.New(words)),
		"AsServerError":        AsServerError(errors.New(words)),
	} {
		require.False(t, strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%s: %q", name, err)
		require.Less(t, len(err.Error()), 400, name)
		require.Contains(t, err.Error(), `\x1b[2J\nlevel=ERROR \u202exxx`, name)
	}
	require.NotContains(t, parseInfo("redis_version:7\x1b[2J\r\n").Version, "\x1b")
	require.NotContains(t, evictionPolicy("maxmemory:1\r\nmaxmemory_policy:all\x1b\r\n"), "\x1b")
}

func TestHideLeavesNothingOfASecretThatTellsIt(t *testing.T) {
	t.Parallel()
	require.Nil(t, Hide("", ""))
	hide := Hide("canary-dragon-42", "\x1bpw", "x9")
	for text, want := range map[string]string{
		"ERR unknown 'HELLO', '3' 'AUTH' 'u' 'canary-dragon-42' 'y'": "ERR unknown 'HELLO', '3' 'AUTH' 'u' '***",
		"cut off: canary-dr": "cut off: ***",
		"ragon-42 at first":  "***",
		Printable("\x1bpw"):  "***",
		"a x9 b":             "a ***",
		"can it be":          "can it be",
	} {
		require.Equal(t, want, hide(text))
	}
	const hard = `a"b\c"d\e"f`
	for _, part := range []string{"", "x", "xy", "xyz"} {
		require.NotContains(t, Hide(hard)(fmt.Sprintf("%.48q", part+hard)), `c\"d`, "quoted")
	}
	require.Equal(t, "- ***", Hide(`"q`)(`- \"q`), "a short one that has quotes")
}

// A redirection is read out of the text of its error: the longest name of a host has room in it.
func TestARedirectionToALongNameIsNotCut(t *testing.T) {
	t.Parallel()
	host := strings.Repeat("h", 255)
	err := classify(mock.Result(mock.RedisError("MOVED 16383 " + host + ":65535")).Error())
	require.Equal(t, ClassMoved, err.Class)
	require.Equal(t, host+":65535", redirection(err.Text, "MOVED ", "a:1"))
}

// A server may echo the password of the handshake: in what it says, not in what the transport says.
func TestWhatAServerEchoesOfAPasswordIsLeftOut(t *testing.T) {
	t.Parallel()
	said := mock.Result(mock.RedisError("WRONGPASS canary-dragon")).Error()
	lost := errors.New("canary-dragon")
	p := &endpoint{hide: Hide("canary-dragon")}
	for name, c := range map[string]struct {
		got   *ServerError
		text  string
		cause bool
	}{
		"refused":         {p.refused(said), "WRONGPASS ***", false},
		"unreachable":     {p.unreachable(said), "WRONGPASS ***", false},
		"transport":       {p.unreachable(lost), "cannot connect: canary-dragon", true},
		"a reply refused": {p.unreachable(fmt.Errorf("%w: canary-dragon", ErrReply)), "cannot connect: a reply that is refused: ***", false},
		"of no secret":    {p.unreachable(ErrReply), "cannot connect: a reply that is refused", true},
		"nothing to hide": {p.refused(mock.Result(mock.RedisError("OOM")).Error()), "OOM", false},
		"malformed":       {p.unreachable(unexpected("TIME", mock.Result(mock.RedisBlobString("canary-dragon")))), `cannot connect: holdfast: server: malformed reply to TIME: "***`, false},
		"no secret":       {(&endpoint{}).refused(said), "WRONGPASS canary-dragon", false},
	} {
		require.Equal(t, c.text, c.got.Text, name)
		require.Equal(t, c.cause, c.got.Unwrap() != nil, "the cause has it, too: %s", name)
	}
	require.Equal(t, ClassNoAuth, p.refused(said).Class)
	bad := &ServerError{Class: ClassPartly, Text: "canary-dragon", malformed: true}
	require.Equal(t, &ServerError{Class: ClassPartly, Text: "***", said: true, malformed: true}, hidden(p.hide, bad))
	require.Nil(t, hidden(p.hide, nil))
}

// A bare "context deadline exceeded" reads as if the caller's had ended.
func TestAServerThatDoesNotAnswerADialIsNamed(t *testing.T) {
	t.Parallel()
	failed := (&endpoint{addr: "there:6379"}).unreachable(context.DeadlineExceeded)
	require.Equal(t, "cannot connect: no answer from there:6379 in time", failed.Text)
	require.Equal(t, ClassUnreachable, failed.Class)
	require.ErrorIs(t, failed, context.DeadlineExceeded)
}

// An error without a word of a server is known by what it is: a password that stands in it changes nothing.
func TestAnErrorOfOursIsNotHidden(t *testing.T) {
	t.Parallel()
	hide := Hide("nobody", "closed")
	for _, own := range []*ServerError{errUnwanted, errClosed} {
		require.NotEqual(t, own.Text, hide(own.Text))
		require.Same(t, own, hidden(hide, own))
	}
}

func TestPrintableIsCutAtItsLength(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.Repeat("x", mostText), Printable(strings.Repeat("x", mostText)))
	require.Equal(t, strings.Repeat("x", mostText)+"…", Printable(strings.Repeat("x", mostText+1)))
	require.Equal(t, "\ufffd", Printable("\ufffd"), "that is a rune as any other")
}

func TestHideKnowsTheBeginningOfASecretAndItsMiddle(t *testing.T) {
	t.Parallel()
	hide := Hide("abcdefgh")
	for text, want := range map[string]string{
		"x abc":    "x abc",
		"x abcd y": "x ***",
		"cdefg y":  "cdefg y",
		"bcdefg y": "***",
		"- cdefgh": "- ***",
	} {
		require.Equal(t, want, hide(text))
	}
	require.Equal(t, "***", Hide("", "ab")("ab"), "a short one is all of it")
}
