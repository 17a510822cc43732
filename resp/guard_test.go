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
	return guardedBy(t, new(Guard), commands, replies, piece)
}

func guardedBy(t *testing.T, g *Guard, commands []string, replies string, piece int) (read string, closed bool, err error) {
	t.Helper()
	conn := &scripted{text: replies, piece: piece}
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
		n, again := w.Read(make([]byte, 10))
		require.Equal(t, err, again, "it stays closed")
		require.Zero(t, n)
	}
	return got.String(), conn.over, err
}

var (
	info  = wireCommand("INFO", "k") // may be answered with much
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
		"scalars":       {repeated(9, info), "+OK\r\n-ERR no\r\n:-12\r\n,3.14\r\n(12345678901234567890123\r\n#t\r\n#f\r\n_\r\n:9223372036854775807\r\n"},
		"least integer": {repeated(1, info), ":-9223372036854775808\r\n"},
		"strings":       {repeated(6, info), "$5\r\nhel\r\n\r\n$0\r\n\r\n$-1\r\n!5\r\nERR x\r\n=7\r\ntxt:abc\r\n$2\r\n\r\n\r\n"},
		"aggregates": {repeated(6, info), "*2\r\n$1\r\na\r\n*1\r\n:1\r\n*-1\r\n*0\r\n%1\r\n+k\r\n*1\r\n:1\r\n~2\r\n:1\r\n:2\r\n" +
			"*3\r\n$-1\r\n*-1\r\n*0\r\n"},
		"attributes":   {repeated(2, info), "|1\r\n+ttl\r\n:3\r\n+OK\r\n*2\r\n|1\r\n+ttl\r\n*1\r\n:3\r\n:1\r\n|0\r\n:2\r\n"},
		"deep":         {repeated(1, info), strings.Repeat("*1\r\n", mostDepth) + ":1\r\n"},
		"long line":    {repeated(1, info), "+" + strings.Repeat("x", 5000) + "\r\n"},
		"long string":  {repeated(1, info), "$5000\r\n" + strings.Repeat("y", 5000) + "\r\n"},
		"many":         {repeated(1, info), "*3000\r\n" + strings.Repeat(":1\r\n", 3000)},
		"pushes":       {[]string{hello, info}, "%1\r\n+proto\r\n:3\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n>2\r\n$10\r\ninvalidate\r\n_\r\n+OK\r\n>1\r\n+x\r\n"},
		"subscription": {[]string{hello, wireCommand("SUBSCRIBE", "a", "b"), info}, "%0\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n+OK\r\n"},
		"refused subscription": {
			[]string{hello, wireCommand("ssubscribe", "a"), wireCommand("SSUBSCRIBE", "b")},
			"%0\r\n-MOVED 1 h:1\r\n>3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n",
		},
		"subscriptions one after the other": {
			[]string{hello, wireCommand("SUBSCRIBE", "a", "b"), wireCommand("SUBSCRIBE", "c"), info},
			"%0\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n>3\r\n+subscribe\r\n+b\r\n:2\r\n>3\r\n+subscribe\r\n+c\r\n:3\r\n+OK\r\n",
		},
		"a push of one": {[]string{hello}, "%0\r\n>1\r\n+subscribe\r\n"},
		"a reply between confirmations": {
			[]string{hello, wireCommand("SUBSCRIBE", "a", "b"), info},
			"%0\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n+OK\r\n>3\r\n+subscribe\r\n+b\r\n:2\r\n",
		},
		"a long name":      {[]string{wireCommand(strings.Repeat("x", 30), "k"), info}, "-no\r\n+OK\r\n"},
		"a slot that left": {[]string{hello}, "%0\r\n>3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n"},
		"unsubscription": {
			[]string{hello, wireCommand("UNSUBSCRIBE", "a"), wireCommand("PING"), wireCommand("PING")},
			"%0\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n+PONG\r\n+PONG\r\n",
		},
		"unsubscription in a transaction": {append(multi[:4:4], info), "%0\r\n+OK\r\n+QUEUED\r\n*1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n" +
			">3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n+OK\r\n"},
		"RESP2 array": {[]string{wireCommand("HELLO", "2"), info}, "*2\r\n$5\r\nproto\r\n:2\r\n*1\r\n$7\r\nmessage\r\n"},
		"RESP2 subscription": {
			[]string{wireCommand("SUBSCRIBE", "a"), wireCommand("PING")},
			"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n0\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n",
		},
		"more commands than replies": {[]string{info, wireCommand("SET", "k", strings.Repeat("x", 3000)), info}, "+OK\r\n+OK\r\n"},
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
		"endless line":                    {repeated(1, info), "", "+" + strings.Repeat("a", mostLine+1), errLine},
		"long line":                       {repeated(1, info), "", "+" + strings.Repeat("a", mostLine+1) + "\r\n", errLine},
		"long string":                     {repeated(2, info), ":1\r\n", "$8388609\r\n", errString},
		"longest string":                  {repeated(1, info), "", "$9223372036854775807\r\n", errString},
		"strings together":                {repeated(1, info), "*3\r\n" + strings.Repeat("$8388000\r\n"+strings.Repeat("x", 8388000)+"\r\n", 2), "$8388000\r\n", errLarge},
		"negative string":                 {repeated(1, info), "", "$-2\r\n", errLength},
		"negative array":                  {repeated(1, info), "", "*-2\r\n", errLength},
		"negative map":                    {repeated(1, info), "", "%-1\r\n", errLength},
		"the most negative map":           {repeated(1, info), "", "%-9223372036854775808\r\n", errLength},
		"negative push":                   {nil, "", ">-1\r\n", errLength},
		"negative set":                    {repeated(1, info), "", "~-1\r\n", errLength},
		"no length":                       {repeated(1, info), "", "$\r\n", errLength},
		"length without digits":           {repeated(1, info), "", "*-\r\n", errLength},
		"length that overflows":           {repeated(1, info), "", "*18446744073709551617\r\n", errLength},
		"map that overflows":              {repeated(1, info), "", "%4611686018427387905\r\n", errLength},
		"no end known":                    {repeated(1, info), "", "$?\r\n", errLength},
		"large array":                     {repeated(1, info), "", "*2147483647\r\n", errLarge},
		"large arrays":                    {repeated(1, info), "*2\r\n*200000\r\n" + strings.Repeat(":1\r\n", 200000), "*200000\r\n", errLarge},
		"deep":                            {repeated(1, info), strings.Repeat("*1\r\n", mostDepth), "*1\r\n", errDeep},
		"attributes without end":          {repeated(1, info), strings.Repeat("|100\r\n"+strings.Repeat("_\r\n", 200), 1310), "|100\r\n", errLarge},
		"integer without digits":          {repeated(1, info), "", ":\r\n", errNumber},
		"integer of letters":              {repeated(1, info), "", ":1x\r\n", errNumber},
		"integer that overflows":          {repeated(1, info), "", ":9223372036854775808\r\n", errNumber},
		"integer of many digits":          {repeated(1, info), "", ":" + strings.Repeat("1", 100) + "\r\n", errNumber},
		"unknown type":                    {repeated(1, info), "", "hello\r\n", errType},
		"end of no stream":                {repeated(1, info), "", ".\r\n", errType},
		"chunk":                           {repeated(1, info), "", ";3\r\n", errType},
		"empty line":                      {repeated(1, info), "", "\r\n", errEnd},
		"string without CR":               {repeated(2, info), "$2\r\n", "abX\n", errEnd},
		"RESP2 unasked reply":             {[]string{sub}, "*3\r\n+subscribe\r\n+a\r\n:1\r\n", "+OK\r\n", errUnasked},
		"RESP2 push of one":               {[]string{wireCommand("HELLO", "2"), info}, "+OK\r\n*1\r\n", "+subscribe\r\n", errConfirm},
		"another push that lacks":         {append(multi[:4:4], info), "%0\r\n+OK\r\n+QUEUED\r\n*1\r\n>2\r\n+unsubscribe\r\n+a\r\n>2\r\n+message\r\n", "+a\r\n", errPushes},
		"subscription for its opposite":   {[]string{hello, wireCommand("UNSUBSCRIBE"), wireCommand("PING")}, "%0\r\n>2\r\n+subscribe\r\n", "+a\r\n", errConfirm},
		"one channel too many":            {[]string{hello, wireCommand("SUBSCRIBE", "a", "b")}, "%0\r\n" + strings.Repeat(">2\r\n+subscribe\r\n+a\r\n", 2) + ">2\r\n+subscribe\r\n", "+a\r\n", errConfirm},
		"unsubscription queued":           {[]string{hello, wireCommand("UNSUBSCRIBE", "a"), wireCommand("PING")}, "%0\r\n", "+QUEUED\r\n", errPong},
		"nothing but an LF":               {repeated(2, info), "+OK\r\n", "\n", errEnd},
		"line without CR":                 {repeated(1, info), "", "+OK\n", errEnd},
		"string without end":              {repeated(1, info), "$2\r\n", "abcd", errEnd},
		"null with more":                  {repeated(1, info), "", "_x\r\n", errEnd},
		"boolean of neither":              {repeated(1, info), "", "#x\r\n", errEnd},
		"nobody asked":                    {nil, "", "+OK\r\n", errUnasked},
		"nobody asked again":              {repeated(2, info), "+OK\r\n*1\r\n+OK\r\n", "+OK\r\n", errUnasked},
		"unasked null":                    {nil, "", "*-1\r\n", errUnasked},
		"unasked subscription":            {[]string{hello, info}, "%0\r\n>3\r\n+subscribe\r\n+x\r\n", ":1\r\n", errConfirm},
		"subscription twice":              {[]string{hello, sub}, "%0\r\n>3\r\n+subscribe\r\n+x\r\n:1\r\n>3\r\n+subscribe\r\n+x\r\n", ":1\r\n", errConfirm},
		"subscription too early":          {[]string{hello, info, sub}, "%0\r\n>2\r\n+psubscribe\r\n", "+x\r\n", errConfirm},
		"subscription after attributes":   {[]string{hello, info}, "%0\r\n|1\r\n+a\r\n+b\r\n>2\r\n|1\r\n+a\r\n+b\r\n+subscribe\r\n", "+x\r\n", errConfirm},
		"queued subscription":             {[]string{hello, sub}, "%0\r\n", "+QUEUED\r\n", errQueued},
		"queued error":                    {[]string{hello, sub}, "%0\r\n", "-QUEUED\r\n", errQueued},
		"push in a push":                  {nil, ">2\r\n+x\r\n", ">1\r\n", errType},
		"push deep in a reply":            {repeated(1, info), "*1\r\n*1\r\n", ">1\r\n", errType},
		"push in an attribute":            {repeated(1, info), "|1\r\n", ">1\r\n", errType},
		"array that lacks a push":         {append(multi[:4:4], info), "%0\r\n+OK\r\n+QUEUED\r\n*1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n", "+OK\r\n", errPushes},
		"array of a lacking subscription": {append(multi[:1:1], wireCommand("SUBSCRIBE", "a", "b"), info), "%0\r\n>2\r\n+subscribe\r\n+a\r\n*1\r\n>1\r\n", "+x\r\n", errPushes},
		"unsubscription refused":          {[]string{hello, wireCommand("UNSUBSCRIBE", "a"), wireCommand("PING")}, "%0\r\n", "-NOPERM\r\n", errPong},
		"PONG of an unsubscription again": {[]string{hello, wireCommand("UNSUBSCRIBE"), wireCommand("PING")}, "%0\r\n>2\r\n+unsubscribe\r\n_\r\n+PONG\r\n", "+PONG\r\n", errUnasked},
		"null without its end":            {nil, "", "_xx", errEnd},
		"boolean without its end":         {repeated(2, info), "-no\r\n_\r\n", "#t\xff\xff", errEnd},
		"boolean without its LF":          {nil, "", "#f\rx", errEnd},
		"end of a stream without its":     {nil, "", ".xx", errType},
		"RESP2 push without asking":       {[]string{wireCommand("HELLO", "2"), info}, "+OK\r\n*3\r\n+subscribe\r\n+a\r\n", ":1\r\n", errConfirm},
		"RESP2 subscription twice":        {[]string{sub, info}, "*2\r\n+subscribe\r\n+a\r\n*2\r\n+subscribe\r\n", "+a\r\n", errConfirm},
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
	read, _, err := guarded(t, []string{info, info}, "+OK\r\n$-2\r\n", 100)
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
	w, buf := (&Guard{Own: true}).Watch(conn), make([]byte, 4096)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			_, _ = w.Write(sent)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/maxKeys, "ns/pair")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			w.(*watched).asked.allowed.Add(1 << 10)
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
	n, err = nobody.Watch(&ending{}).Read(make([]byte, 100))
	require.Equal(t, io.EOF, err, "with what came before")
	require.Equal(t, 1, n)
}

// ending is a connection that ends with its last byte.
type ending struct{ scripted }

func (*ending) Read(b []byte) (int, error) { return copy(b, "+"), io.EOF }

// Whatever the arguments of commands are, and wherever they are cut: each command counts once.
func TestTheGuardCountsCommandsHoweverTheyAreCut(t *testing.T) {
	filled := func(n int) string { return strings.Repeat("$1\r\n*1\r\n", n/8+1)[:n] }
	var text string
	n := 0
	for _, a := range []int{0, 1, 5, 9, 10, 11, 99, 100, 101, 1000} {
		for _, b := range []int{0, 3, 12, 42, 100} {
			for _, args := range [][]string{
				{"GET", filled(a)},
				{"GET", "3"},
				{"SET", filled(b), filled(a)},
				{"EVALSHA", filled(a), filled(b), filled(a), "HELLO", filled(3), "3"},
			} {
				text += wireCommand(args...)
				n++
			}
		}
	}
	for _, piece := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 17, 64, 4096, len(text)} {
		a := &asked{}
		s := &commandScanner{asked: a}
		for left := []byte(text); len(left) > 0; left = left[min(piece, len(left)):] {
			s.scan(left[:min(piece, len(left))])
		}
		require.EqualValues(t, n, a.sent.Load(), "in pieces of %d", piece)
		require.Zero(t, [3]int{s.left, s.skip, s.count}, "in pieces of %d", piece)
		require.False(t, a.resp3.Load(), "no HELLO was sent")
		s.scan([]byte(wireCommand("SUBSCRIBE", "a", "b") + wireCommand("HELLO", "3")))
		require.Equal(t, []special{{uint64(n + 1), 2}}, a.special)
		require.True(t, a.resp3.Load())
	}
}

func TestTheGuardKnowsWhichCommandsAreAnsweredOtherwise(t *testing.T) {
	for text, c := range map[string]struct {
		special []special
		sent    uint64
		listens bool
	}{
		"GET a":                                {nil, 1, false},
		"SUBSCRIBE a":                          {[]special{{1, 1}}, 1, true},
		"psubscribe a b":                       {[]special{{1, 2}}, 1, true},
		"Ssubscribe a b c":                     {[]special{{1, 3}}, 1, true},
		"GET a,UNSUBSCRIBE a,PING":             {[]special{{2, 0}}, 2, true},
		"PUNSUBSCRIBE,ping":                    {[]special{{1, 0}}, 1, true},
		"SUNSUBSCRIBE a,PING,PING":             {[]special{{1, 0}}, 2, true},
		"UNSUBSCRIBE a,GET a,PING":             {[]special{{1, 0}}, 3, true},
		"PING,PING":                            {nil, 2, false},
		"MULTI,UNSUBSCRIBE a,PING,EXEC":        {nil, 4, true},
		"MULTI,EXEC,UNSUBSCRIBE a,PING":        {[]special{{3, 0}}, 3, true},
		"MULTI,discard,UNSUBSCRIBE a,PING":     {[]special{{3, 0}}, 3, true},
		"MULTI,EXECUTE,UNSUBSCRIBE a,PING":     {nil, 4, true},
		"PUNSUBSCRIBED a,PING":                 {nil, 2, false},
		"SUB a,SUBSCRIBEX a":                   {nil, 2, false},
		"HELLO 2 AUTH u 3,HELLO 2 3,GET 3 3 3": {nil, 3, false},
	} {
		for _, piece := range []int{1, 3, 1000} {
			a := &asked{}
			s := &commandScanner{asked: a}
			var wire string
			for _, command := range strings.Split(text, ",") {
				wire += wireCommand(strings.Fields(command)...)
			}
			for left := []byte(wire); len(left) > 0; left = left[min(piece, len(left)):] {
				s.scan(left[:min(piece, len(left))])
			}
			require.Equal(t, c.special, a.special, "%s in pieces of %d", text, piece)
			require.Equal(t, c.sent, a.sent.Load(), "%s in pieces of %d", text, piece)
			require.Equal(t, c.listens, a.listens.Load(), text)
			require.False(t, a.resp3.Load(), text)
		}
	}
}

// What is scanned in one piece, after so many bytes of its reply.
func scanned(text string, before int) (*replyScanner, error) {
	a := &asked{}
	a.sent.Store(100)
	a.allowed.Store(100 * allowAnything)
	s := &replyScanner{asked: a, own: true, size: before, room: allowAnything}
	good, err := s.scan([]byte(text))
	if err == nil && good != len(text) {
		err = io.ErrShortBuffer
	}
	return s, err
}

func TestTheGuardRefusesWhatIsOverALimitAndNothingElse(t *testing.T) {
	line := func(n int) string { return "+" + strings.Repeat("a", n-1) + "\r\n" }
	for name, c := range map[string]struct {
		text   string
		before int
		want   error
	}{
		"the longest line":    {line(mostLine), 0, nil},
		"a longer one":        {line(mostLine + 1), 0, errLine},
		"its beginning":       {line(mostLine)[:mostLine], 0, nil},
		"of a longer one":     {line(mostLine + 1)[:mostLine+1], 0, errLine},
		"the longest string":  {fmt.Sprintf("$%d\r\n", mostString), 0, nil},
		"a longer string":     {fmt.Sprintf("$%d\r\n", mostString+1), 0, errString},
		"the last line":       {"+ab\r\n", mostReply - 5, nil},
		"a line too many":     {"+ab\r\n", mostReply - 4, errLarge},
		"the last string":     {"$3\r\nabc\r\n", mostReply - 9, nil},
		"a string too many":   {"$3\r\nabc\r\n", mostReply - 8, errLarge},
		"most elements":       {fmt.Sprintf("*%d\r\n", mostElements), 0, nil},
		"an element too many": {fmt.Sprintf("*%d\r\n", mostElements+1), 0, errLarge},
		"pairs":               {fmt.Sprintf("%%%d\r\n", mostElements/2), 0, nil},
		"a pair too many":     {fmt.Sprintf("%%%d\r\n", mostElements/2+1), 0, errLarge},
		"the largest integer": {":9223372036854775807\r\n", 0, nil},
		"the least one":       {":-9223372036854775808\r\n", 0, nil},
		"one less":            {":-9223372036854775809\r\n", 0, errNumber},
		"twenty digits":       {":00000000000000000001\r\n", 0, errNumber},
		"a minus":             {":-\r\n", 0, errNumber},
		"a minus in between":  {":1-1\r\n", 0, errNumber},
		"digits and letters":  {":1:\r\n", 0, errNumber},
		"a slash":             {":/\r\n", 0, errNumber},
		"nine and nought":     {":90\r\n", 0, nil},
		"null":                {"_\r\n$-1\r\n*-1\r\n", 0, nil},
		"booleans":            {"#t\r\n#f\r\n", 0, nil},
		"longer booleans":     {"#tt\r\n", 0, errEnd},
		"no aggregate":        {"~-1\r\n", 0, errLength},
		"empty ones":          {"*0\r\n%0\r\n~0\r\n$0\r\n\r\n", 0, nil},
		"an end too soon":     {"$2\r\na\r\n\n", 0, errEnd},
		"no CR":               {"$1\r\naX\n", 0, errEnd},
		"a CR alone":          {"\r", 0, errEnd},
		"no LF":               {"$1\r\na\rX", 0, errEnd},
	} {
		s, err := scanned(c.text, c.before)
		require.Equal(t, c.want, err, name)
		if err == nil && s.depth == 0 && s.left == 0 && s.length == 0 {
			require.Zero(t, [2]int{s.size, s.elements}, "the next reply has room of its own: %s", name)
		}
	}
}

// Many sentinels are asked at a time, and each may say as much as it likes of others.
func TestTheGuardRefusesMoreOfASentinel(t *testing.T) {
	for text, want := range map[string]error{
		"$262130\r\n": nil, "$262144\r\n": errSmall, "*8192\r\n": nil, "*8193\r\n": errSmall, "%4097\r\n": errSmall,
		"*2\r\n$262100\r\n" + strings.Repeat("x", 262100) + "\r\n$100\r\n":      errSmall,
		"*8000\r\n" + strings.Repeat("+"+strings.Repeat("x", 100)+"\r\n", 7999): errSmall,
		"$8388609\r\n": errString,
	} {
		for _, small := range []bool{true, false} {
			s := replyScanner{asked: &asked{}, small: small}
			s.asked.sent.Store(1)
			s.asked.allowed.Store(allowAnything)
			_, refused := s.scan([]byte(text))
			switch {
			case small, errors.Is(want, errString):
				require.Equal(t, want, refused, "%.20q", text)
			default:
				require.NoError(t, refused, "%.20q", text)
			}
		}
	}
}

// A server of three keys says more of them than of one, and nothing of a megabyte.
func TestTheGuardRefusesMoreThanWasAskedFor(t *testing.T) {
	sha := strings.Repeat("0", 40)
	batch := []string{"EVALSHA", sha, "0", "30000", "field", "1763829999999", "1"} // a cluster's: one argument a key
	keys := func(n int) string { return wireCommand(append(batch, repeated(n, "k")...)...) }
	look := wireCommand("EVALSHA", sha, "1", "k")
	nulls := func(n int) string { return fmt.Sprintf("*%d\r\n", n) + strings.Repeat("_\r\n", n) }
	misconf := "-" + strings.Repeat("m", 340) + "\r\n"
	refusals := "*258\r\n:1763829999999\r\n:0\r\n"
	for i := range maxKeys {
		refusals += fmt.Sprintf(":%d\r\n%s", i+1, misconf)
	}
	fields := "*20001\r\n:-1\r\n" + strings.Repeat("$52\r\n"+strings.Repeat("f", 52)+"\r\n$1\r\n1\r\n", 10000)
	places := "*20001\r\n:1763829999999\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("f", 100)+"\r\n$18\r\n1.763829999999e+12\r\n", 10000)
	for name, c := range map[string]struct {
		commands []string
		good     string // is delivered
		bad      string // is not
	}{
		"all keys of a batch refused":    {[]string{keys(maxKeys)}, refusals, ""},
		"one key refused, and no script": {repeated(2, keys(1)), "*4\r\n:1763829999999\r\n:0\r\n:1\r\n" + misconf + misconf, ""},
		"all are refused all keys":       {repeated(20, keys(maxKeys)), strings.Repeat(refusals, 20), ""},
		"more than a batch's":            {[]string{keys(maxKeys)}, "", nulls(2000)},
		"more than a key's":              {[]string{keys(1)}, "", nulls(130)},
		"a long error":                   {[]string{keys(1)}, "", "-" + strings.Repeat("m", 6000) + "\r\n"},
		"a long string":                  {[]string{keys(1)}, "", "$6000\r\n" + strings.Repeat("m", 6000) + "\r\n"},
		"what Inspect reads":             {repeated(4, look), strings.Repeat(fields, 4), ""},
		"what Queue reads":               {repeated(4, look), strings.Repeat(places, 4), ""},
		"a look of a megabyte":           {[]string{look}, "*2\r\n:1\r\n$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n", ""},
		"more than Inspect reads":        {[]string{look}, "", nulls(70_000)},
		"looks, one after the other":     {repeated(3, look), strings.Repeat(nulls(45_000), 2), nulls(100_000)},
		"scripts that are loaded":        {repeated(15, wireCommand("SCRIPT", "LOAD", "return 1")), strings.Repeat("$40\r\n"+sha+"\r\n", 14), nulls(1000)},
		"a greeting":                     {[]string{hello}, nulls(700), ""},
		"a long greeting":                {[]string{hello}, "", nulls(8000)},
		"tables":                         {[]string{wireCommand("CLUSTER", "SLOTS"), wireCommand("ROLE")}, nulls(90_000) + nulls(11_000), ""},
		"pushes":                         {[]string{hello, keys(1)}, "%0\r\n" + strings.Repeat(">2\r\n+message\r\n$60000\r\n"+strings.Repeat("x", 60_000)+"\r\n", 9) + misconf, ""},
		"more than tables":               {[]string{wireCommand("CLUSTER", "SLOTS")}, "", nulls(100_000)},
		"more than what it serves as":    {[]string{wireCommand("ROLE")}, "", nulls(14_000)},
		"more than its memory":           {[]string{wireCommand("INFO", "memory")}, "", "$40000\r\n" + strings.Repeat("x", 40000) + "\r\n"},
		"a large push":                   {[]string{hello}, "%0\r\n", ">2\r\n+message\r\n$66000\r\n" + strings.Repeat("x", 66000) + "\r\n"},
		"a large push of RESP2":          {[]string{wireCommand("SUBSCRIBE", "a")}, "", "*2\r\n+message\r\n$66000\r\n" + strings.Repeat("x", 66000) + "\r\n"},
		"a large reply, unasked":         {[]string{hello}, "%0\r\n", "$300000\r\n"},
		"long names, each in its refusal": {
			[]string{wireCommand(append(batch, repeated(maxKeys, strings.Repeat("k", 900))...)...)},
			"*258\r\n:1763829999999\r\n:0\r\n" + strings.Repeat(":1\r\n-HOLDFAST key without expiry could not be undone, delete it by hand: "+strings.Repeat("k", 900)+"\r\n", maxKeys), "",
		},
		"pushes of RESP2": {[]string{wireCommand("SUBSCRIBE", "a")}, strings.Repeat("*2\r\n+message\r\n$9000\r\n"+strings.Repeat("x", 9000)+"\r\n", 9), ""},
	} {
		read, closed, err := guardedBy(t, &Guard{Own: true}, c.commands, c.good+c.bad, 4099)
		require.Equal(t, c.bad != "", closed, "%s: %v", name, err)
		require.True(t, strings.HasPrefix(read, c.good), name)
		if c.bad != "" {
			require.ErrorIs(t, err, errRoom, name)
			_, closed, err = guardedBy(t, new(Guard), c.commands, c.good+c.bad, 4099)
			require.False(t, closed, "somebody else's client may ask for more: %s: %v", name, err)
		}
	}
}

// What honest replies have left is of no use to a dishonest one, whether the connection comes to rest or not.
func TestAServerCannotSaveRoomForALargeReply(t *testing.T) {
	sha := strings.Repeat("0", 40)
	command := []byte(wireCommand("EVALSHA", sha, "1", "k", "30000"))
	reply := []byte("*2\r\n:1763829999999\r\n:1\r\n")
	for _, ahead := range []int{0, 1, 7} {
		a := &asked{}
		out, in := commandScanner{asked: a}, replyScanner{asked: a, own: true}
		for range ahead {
			out.scan(command)
		}
		for range 10_000 {
			out.scan(command)
			_, err := in.scan(reply)
			require.NoError(t, err)
		}
		out.scan(command)
		room := (2*ahead + 2) * (allowCommand + 5*allowArgument + len(command))
		_, err := in.scan(fmt.Appendf(nil, "$%d\r\n", room))
		require.ErrorIs(t, err, errRoom, "%d ahead", ahead)
	}
}
