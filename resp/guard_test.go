package resp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scripted is a connection that reads what is given, in pieces of some size.
type scripted struct {
	net.Conn
	text  string
	piece int
	over  bool
}

func (c *scripted) Read(b []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.piece)], c.text)
	c.text = c.text[n:]
	return n, nil
}

func (c *scripted) Write(b []byte) (int, error) { return len(b), nil }
func (c *scripted) Close() error                { c.over = true; return nil }
func (c *scripted) RemoteAddr() net.Addr        { return nil }

// command is what a client writes.
func wireCommand(args ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	return text
}

// guarded writes commands and reads replies through a guard, cut in pieces of one size.
func guarded(t *testing.T, commands []string, replies string, piece int) (read string, closed bool, err error) {
	t.Helper()
	conn := &scripted{text: replies, piece: piece}
	var g Guard
	w := g.Watch(conn)
	sent := strings.Join(commands, "")
	for len(sent) > 0 {
		n := min(piece, len(sent))
		_, err := w.Write([]byte(sent[:n]))
		require.NoError(t, err)
		sent = sent[n:]
	}
	var got bytes.Buffer
	_, err = io.Copy(&got, w)
	require.Equal(t, conn.over, err != nil)
	if err != nil {
		require.ErrorIs(t, err, ErrReply)
		require.EqualValues(t, 1, g.Refused())
		require.NotEmpty(t, g.TakeRefused())
		require.Empty(t, g.TakeRefused(), "told once")
		_, again := w.Read(make([]byte, 10))
		require.Equal(t, err, again, "it stays closed")
	}
	return got.String(), conn.over, err
}

var (
	get   = wireCommand("GET", "k")
	hello = wireCommand("HELLO", "3", "AUTH", "default", "*1\r\n$4\r\nEXEC\r\n")
	multi = []string{hello, wireCommand("MULTI"), wireCommand("UNSUBSCRIBE", "a", "b"), wireCommand("EXEC")}
)

func repeated(n int, text string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text
	}
	return all
}

func TestTheGuardLetsThroughWhatServersSend(t *testing.T) {
	for name, c := range map[string]struct {
		commands []string
		replies  string
	}{
		"scalars":       {repeated(9, get), "+OK\r\n-ERR no\r\n:-12\r\n,3.14\r\n(12345678901234567890123\r\n#t\r\n#f\r\n_\r\n:9223372036854775807\r\n"},
		"least integer": {repeated(1, get), ":-9223372036854775808\r\n"},
		"strings":       {repeated(6, get), "$5\r\nhel\r\n\r\n$0\r\n\r\n$-1\r\n!5\r\nERR x\r\n=7\r\ntxt:abc\r\n$2\r\n\r\n\r\n"},
		"aggregates": {repeated(6, get), "*2\r\n$1\r\na\r\n*1\r\n:1\r\n*-1\r\n*0\r\n%1\r\n+k\r\n*1\r\n:1\r\n~2\r\n:1\r\n:2\r\n" +
			"*3\r\n$-1\r\n*-1\r\n*0\r\n"},
		"attributes":   {repeated(2, get), "|1\r\n+ttl\r\n:3\r\n+OK\r\n*2\r\n|1\r\n+ttl\r\n*1\r\n:3\r\n:1\r\n|0\r\n:2\r\n"},
		"deep":         {repeated(1, get), strings.Repeat("*1\r\n", mostDepth) + ":1\r\n"},
		"long line":    {repeated(1, get), "+" + strings.Repeat("x", 5000) + "\r\n"},
		"long string":  {repeated(1, get), "$5000\r\n" + strings.Repeat("y", 5000) + "\r\n"},
		"many":         {repeated(1, get), "*3000\r\n" + strings.Repeat(":1\r\n", 3000)},
		"pushes":       {[]string{hello, get}, "%1\r\n+proto\r\n:3\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n+OK\r\n>1\r\n+x\r\n"},
		"subscription": {[]string{hello, wireCommand("SUBSCRIBE", "a", "b"), get}, "%0\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n+OK\r\n"},
		"refused subscription": {
			[]string{hello, wireCommand("ssubscribe", "a"), wireCommand("SSUBSCRIBE", "b")},
			"%0\r\n-MOVED 1 h:1\r\n>3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n",
		},
		"a slot that left": {[]string{hello}, "%0\r\n>3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n"},
		"unsubscription": {
			[]string{hello, wireCommand("UNSUBSCRIBE", "a"), wireCommand("PING"), wireCommand("PING")},
			"%0\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n+PONG\r\n+PONG\r\n",
		},
		"unsubscription in a transaction": {append(multi[:4:4], get), "%0\r\n+OK\r\n+QUEUED\r\n*1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n" +
			">3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n+OK\r\n"},
		"RESP2 array": {[]string{wireCommand("HELLO", "2"), get}, "*2\r\n$5\r\nproto\r\n:2\r\n*1\r\n$7\r\nmessage\r\n"},
		"RESP2 subscription": {
			[]string{wireCommand("SUBSCRIBE", "a"), wireCommand("PING")},
			"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n",
		},
		"more commands than replies": {[]string{get, wireCommand("SET", "k", strings.Repeat("x", 3000)), get}, "+OK\r\n+OK\r\n"},
	} {
		for _, piece := range []int{1, 2, 3, 7, 4096} {
			read, _, err := guarded(t, c.commands, c.replies, piece)
			require.NoError(t, err, "%s in pieces of %d", name, piece)
			require.Equal(t, c.replies, read, "%s in pieces of %d", name, piece)
		}
	}
}

func TestTheGuardRefusesWhatItsClientMustNotRead(t *testing.T) {
	sub := wireCommand("SUBSCRIBE", "a")
	for name, c := range map[string]struct {
		commands []string
		good     string // is delivered
		bad      string // is not, from its last line on
		want     error
	}{
		"endless line":                    {repeated(1, get), "", "+" + strings.Repeat("a", mostLine+1), errLine},
		"long line":                       {repeated(1, get), "", "+" + strings.Repeat("a", mostLine+1) + "\r\n", errLine},
		"long string":                     {repeated(2, get), ":1\r\n", "$8388609\r\n", errString},
		"longest string":                  {repeated(1, get), "", "$9223372036854775807\r\n", errString},
		"strings together":                {repeated(1, get), "*3\r\n" + strings.Repeat("$8388000\r\n"+strings.Repeat("x", 8388000)+"\r\n", 2), "$8388000\r\n", errLarge},
		"negative string":                 {repeated(1, get), "", "$-2\r\n", errLength},
		"negative array":                  {repeated(1, get), "", "*-2\r\n", errLength},
		"negative map":                    {repeated(1, get), "", "%-1\r\n", errLength},
		"negative push":                   {nil, "", ">-1\r\n", errLength},
		"negative set":                    {repeated(1, get), "", "~-1\r\n", errLength},
		"no length":                       {repeated(1, get), "", "$\r\n", errLength},
		"length without digits":           {repeated(1, get), "", "*-\r\n", errLength},
		"length that overflows":           {repeated(1, get), "", "*18446744073709551617\r\n", errLength},
		"map that overflows":              {repeated(1, get), "", "%4611686018427387905\r\n", errLength},
		"no end known":                    {repeated(1, get), "", "$?\r\n", errLength},
		"large array":                     {repeated(1, get), "", "*2147483647\r\n", errLarge},
		"large arrays":                    {repeated(1, get), "*2\r\n*200000\r\n" + strings.Repeat(":1\r\n", 200000), "*200000\r\n", errLarge},
		"deep":                            {repeated(1, get), strings.Repeat("*1\r\n", mostDepth), "*1\r\n", errDeep},
		"attributes without end":          {repeated(1, get), strings.Repeat("|100\r\n"+strings.Repeat("_\r\n", 200), 1310), "|100\r\n", errLarge},
		"integer without digits":          {repeated(1, get), "", ":\r\n", errNumber},
		"integer of letters":              {repeated(1, get), "", ":1x\r\n", errNumber},
		"integer that overflows":          {repeated(1, get), "", ":9223372036854775808\r\n", errNumber},
		"integer of many digits":          {repeated(1, get), "", ":" + strings.Repeat("1", 100) + "\r\n", errNumber},
		"unknown type":                    {repeated(1, get), "", "hello\r\n", errType},
		"end of no stream":                {repeated(1, get), "", ".\r\n", errType},
		"chunk":                           {repeated(1, get), "", ";3\r\n", errType},
		"empty line":                      {repeated(1, get), "", "\r\n", errEnd},
		"line without CR":                 {repeated(1, get), "", "+OK\n", errEnd},
		"string without end":              {repeated(1, get), "$2\r\n", "abcd", errEnd},
		"null with more":                  {repeated(1, get), "", "_x\r\n", errEnd},
		"boolean of neither":              {repeated(1, get), "", "#x\r\n", errEnd},
		"nobody asked":                    {nil, "", "+OK\r\n", errUnasked},
		"nobody asked again":              {repeated(2, get), "+OK\r\n*1\r\n+OK\r\n", "+OK\r\n", errUnasked},
		"unasked null":                    {nil, "", "*-1\r\n", errUnasked},
		"unasked subscription":            {[]string{hello, get}, "%0\r\n>3\r\n+subscribe\r\n+x\r\n", ":1\r\n", errConfirm},
		"subscription twice":              {[]string{hello, sub}, "%0\r\n>3\r\n+subscribe\r\n+x\r\n:1\r\n>3\r\n+subscribe\r\n+x\r\n", ":1\r\n", errConfirm},
		"subscription too early":          {[]string{hello, get, sub}, "%0\r\n>2\r\n+psubscribe\r\n", "+x\r\n", errConfirm},
		"subscription after attributes":   {[]string{hello, get}, "%0\r\n|1\r\n+a\r\n+b\r\n>2\r\n|1\r\n+a\r\n+b\r\n+subscribe\r\n", "+x\r\n", errConfirm},
		"queued subscription":             {[]string{hello, sub}, "%0\r\n", "+QUEUED\r\n", errQueued},
		"queued error":                    {[]string{hello, sub}, "%0\r\n", "-QUEUED\r\n", errQueued},
		"push in a push":                  {nil, ">2\r\n+x\r\n", ">1\r\n", errType},
		"push deep in a reply":            {repeated(1, get), "*1\r\n*1\r\n", ">1\r\n", errType},
		"push in an attribute":            {repeated(1, get), "|1\r\n", ">1\r\n", errType},
		"array that lacks a push":         {append(multi[:4:4], get), "%0\r\n+OK\r\n+QUEUED\r\n*1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n", "+OK\r\n", errPushes},
		"array of a lacking subscription": {append(multi[:1:1], wireCommand("SUBSCRIBE", "a", "b"), get), "%0\r\n>2\r\n+subscribe\r\n+a\r\n*1\r\n>1\r\n", "+x\r\n", errPushes},
		"unsubscription refused":          {[]string{hello, wireCommand("UNSUBSCRIBE", "a"), wireCommand("PING")}, "%0\r\n", "-NOPERM\r\n", errPong},
		"PONG of an unsubscription again": {[]string{hello, wireCommand("UNSUBSCRIBE"), wireCommand("PING")}, "%0\r\n>2\r\n+unsubscribe\r\n_\r\n+PONG\r\n", "+PONG\r\n", errUnasked},
		"null without its end":            {nil, "", "_xx", errEnd},
		"boolean without its end":         {repeated(2, get), "-no\r\n_\r\n", "#t\xff\xff", errEnd},
		"boolean without its LF":          {nil, "", "#f\rx", errEnd},
		"end of a stream without its":     {nil, "", ".xx", errType},
		"RESP2 push without asking":       {[]string{wireCommand("HELLO", "2"), get}, "+OK\r\n*3\r\n+subscribe\r\n+a\r\n", ":1\r\n", errConfirm},
		"RESP2 subscription twice":        {[]string{sub, get}, "*2\r\n+subscribe\r\n+a\r\n*2\r\n+subscribe\r\n", "+a\r\n", errConfirm},
	} {
		for _, piece := range []int{1, 5, 4099, 1 << 20} {
			if piece < 4099 && len(c.good) > 1<<18 {
				continue
			}
			read, closed, err := guarded(t, c.commands, c.good+c.bad, piece)
			require.True(t, closed, "%s in pieces of %d", name, piece)
			require.ErrorIs(t, err, c.want, "%s in pieces of %d", name, piece)
			require.True(t, strings.HasPrefix(read, c.good), "%s in pieces of %d: %.60q", name, piece, read)
			require.Less(t, len(read), len(c.good)+len(c.bad), "%s in pieces of %d", name, piece)
			require.Less(t, len(err.Error()), 300)
		}
	}
}

// What is refused is not delivered, not even its beginning, when it comes in one piece.
func TestTheGuardDeliversWhatCameBefore(t *testing.T) {
	read, _, err := guarded(t, []string{get, get}, "+OK\r\n$-2\r\n", 100)
	require.Equal(t, "+OK\r\n", read)
	require.ErrorIs(t, err, errLength)
	require.Contains(t, err.Error(), `"$-2\r\n"`)
}

func TestTheGuardAllocatesNothing(t *testing.T) {
	conn := &endless{text: strings.Repeat("*2\r\n:1763829999999\r\n:128\r\n", 3)}
	w := new(Guard).Watch(conn)
	sent := []byte(strings.Repeat(wireCommand("EVALSHA", strings.Repeat("0", 40), "2", "a", "b", "30000"), 3))
	b := make([]byte, 4096)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := w.Write(sent); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Read(b); err != nil {
			t.Fatal(err)
		}
	}))
}

// endless reads the same again and again.
type endless struct {
	net.Conn
	text string
}

func (c *endless) Read(b []byte) (int, error)  { return copy(b, c.text), nil }
func (c *endless) Write(b []byte) (int, error) { return len(b), nil }

// What the guard costs a batch: an acquire and a release of 128 keys, and their replies. It is done by the connection's two
// goroutines.
func BenchmarkGuard(b *testing.B) {
	args := []string{"EVALSHA", strings.Repeat("0", 40), "128"}
	for i := range maxKeys {
		args = append(args, fmt.Sprintf("loadgen:lock:%d", 10_000+i))
	}
	sent := []byte(wireCommand(append(args, "30000", strings.Repeat("0", 56), "1763829999999", "1")...) +
		wireCommand(append(args, "PUBLISH", "0", "0", strings.Repeat("0", 56), "128")...))
	conn := &endless{text: strings.Repeat("*2\r\n:1763829999999\r\n:128\r\n", 2)}
	w, buf := new(Guard).Watch(conn), make([]byte, 4096)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			_, _ = w.Write(sent)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/maxKeys, "ns/pair")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			w.(*watched).asked.sent.Add(2)
			if _, err := w.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/maxKeys, "ns/pair")
	})
}

// addressed is a connection with a server that has an address.
type addressed struct{ scripted }

func (*addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7000} }

func TestTheGuardTellsWhoWasRefusedAndOnce(t *testing.T) {
	var g Guard
	require.Empty(t, g.TakeRefused())
	fails := errors.New("no connection")
	var conn net.Conn = &addressed{scripted{text: "+unasked\r\n", piece: 100}}
	dial := g.Dialer(func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if addr == "" {
			return conn, fails
		}
		return conn, nil
	})
	none, err := dial(t.Context(), "", nil, nil)
	require.ErrorIs(t, err, fails)
	require.Nil(t, none)
	w, err := dial(t.Context(), "x", nil, nil)
	require.NoError(t, err)
	n, err := w.Read(make([]byte, 100))
	require.Zero(t, n)
	require.ErrorIs(t, err, errUnasked)
	require.EqualError(t, err, `a reply that is refused, from 10.0.0.9:7000: a reply that nobody asked for: "+unasked\r\n"`)
	require.Equal(t, err.Error(), g.TakeRefused())
	require.Empty(t, g.TakeRefused())
	require.EqualValues(t, 1, g.Refused())

	var nobody *Guard
	w = nobody.Watch(&scripted{text: "+unasked\r\n", piece: 100})
	_, err = w.Read(make([]byte, 100))
	require.ErrorIs(t, err, errUnasked)
	_, err = nobody.Watch(&scripted{}).Read(make([]byte, 100))
	require.Equal(t, io.EOF, err, "the connection's own errors are passed on")
}
