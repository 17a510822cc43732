package resp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// A liar is a server that answers what a test says. Every command that comes is answered with OK, but HELLO, and ECHO
// with what answer makes of its argument.
type liar struct{ addr string }

func runLiar(t testing.TB, answer func(w io.Writer, arg string)) *liar {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go lie(conn, answer)
		}
	}()
	return &liar{addr: l.Addr().String()}
}

func lie(conn net.Conn, answer func(w io.Writer, arg string)) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		args, err := readArgs(r)
		if err != nil {
			return
		}
		switch strings.ToUpper(args[0]) {
		case "HELLO":
			_, err = fmt.Fprintf(conn, "%%2\r\n+proto\r\n:%s\r\n+version\r\n+7.0.0\r\n", args[1])
		case "ECHO":
			answer(conn, args[1])
		case "SUBSCRIBE":
			_, err = fmt.Fprintf(conn, ">3\r\n+subscribe\r\n+%s\r\n:1\r\n", args[1])
		case "PING":
			_, err = fmt.Fprint(conn, "+PONG\r\n")
		case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		default:
			_, err = fmt.Fprint(conn, "+OK\r\n")
		}
		if err != nil {
			return
		}
	}
}

func readArgs(r *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

// guardedClient is a client as an engine makes one.
func guardedClient(t testing.TB, g *Guard, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
		DisableCache: true, DisableRetry: true, ConnWriteTimeout: 20 * time.Second, DialCtxFn: g.Dialer(Dial),
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// Each of these ended the process, in a goroutine that nobody can recover, or took all its memory.
func TestNoReplyEndsTheProcess(t *testing.T) {
	endless := func(text string) func(io.Writer) {
		chunk := strings.Repeat(text, 1+65536/len(text))
		return func(w io.Writer) {
			for n := 0; n < 256<<20; n += len(chunk) {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}
	}
	say := func(text string) func(io.Writer) {
		return func(w io.Writer) { _, _ = io.WriteString(w, text) }
	}
	for name, attack := range map[string]func(io.Writer){
		"a reply too many":    say("+OK\r\n+OK\r\n"),
		"a subscription":      say(">3\r\n+subscribe\r\n+x\r\n:1\r\n+OK\r\n"),
		"$-2":                 say("$-2\r\n"),
		"*-2":                 say("*-2\r\n"),
		"%-1":                 say("%-1\r\n"),
		"the longest string":  say("$9223372036854775807\r\n"),
		"the longest array":   say("*2147483647\r\n"),
		"a chunk of no bytes": say("$?\r\n;-5\r\n"),
		"nested arrays":       endless("*1\r\n"),
		"a line without end":  endless("+aaaaaaaaaaaaaaaa"),
		"attributes for ever": endless("|1\r\n+a\r\n+b\r\n"),
		"a long array":        func(w io.Writer) { say("*50000000\r\n")(w); endless(":1\r\n")(w) },
	} {
		t.Run(name, func(t *testing.T) {
			s := runLiar(t, func(w io.Writer, _ string) { attack(w) })
			var g Guard
			client := guardedClient(t, &g, s.addr)
			d, release := client.Dedicate()
			defer release()
			ended := d.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_ = d.Do(ctx, d.B().Echo().Message("x").Build()).Error() // may be answered before the attack
			select {
			case err := <-ended:
				require.ErrorIs(t, err, ErrReply)
			case <-ctx.Done():
				require.Fail(t, "the connection lives on")
			}
			require.EqualValues(t, 1, g.Refused())
			require.NoError(t, client.Do(ctx, client.B().Ping().Build()).Error(), "there is another connection")
		})
	}
}

func TestASubscriptionThatIsQueuedEndsItsConnectionOnly(t *testing.T) {
	s := runLiar(t, func(w io.Writer, arg string) { _, _ = fmt.Fprintf(w, "+%s\r\n", arg) })
	var g Guard
	client := guardedClient(t, &g, s.addr)
	for _, queued := range []bool{false, true} {
		d, release := client.Dedicate()
		cmds := rueidis.Commands{d.B().Subscribe().Channel("a").Build()}
		if queued { // what answers the SUBSCRIBE comes first
			cmds = rueidis.Commands{d.B().Echo().Message("x\r\n+QUEUED").Build(), d.B().Subscribe().Channel("a").Build()}
		}
		replies := d.DoMulti(t.Context(), cmds...)
		if queued {
			require.ErrorIs(t, replies[1].Error(), ErrReply)
		} else {
			require.NoError(t, replies[0].Error())
		}
		release()
	}
	require.EqualValues(t, 1, g.Refused())
}
