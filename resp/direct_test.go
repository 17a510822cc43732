package resp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/world"
)

// A directPair is a direct and the server's end of its connection.
type directPair struct {
	*direct
	server net.Conn
	ended  atomic.Bool // the time of the round is over
}

func newDirectPair(t *testing.T) *directPair {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer at.Close()
	conn, err := net.Dial("tcp", at.Addr().String())
	require.NoError(t, err)
	server, err := at.Accept()
	require.NoError(t, err)
	guarded := (&Guard{Own: true}).Watch(conn).(*watched)
	ends := func() {
		_ = guarded.Close()
		_ = server.Close()
	}
	t.Cleanup(ends)
	hangs := time.AfterFunc(10*time.Second, ends)
	t.Cleanup(func() { hangs.Stop() })
	return &directPair{direct: &direct{conn: guarded, peeker: newPeeker(conn), poll: busyPoll{pollers: new(atomic.Int32)}}, server: server}
}

func (p *directPair) over() bool { return p.ended.Load() }

// asks makes a round of so many commands.
func (p *directPair) asks(n int) {
	p.begin()
	for i := range n {
		p.add([]string{"EVALSHA", "sha", "1"}, []string{fmt.Sprint("key:", i)}, nil)
	}
	p.open(1, true)
}

func (p *directPair) says(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(p.server, text)
	require.NoError(t, err)
}

// texts are replies as one reads them.
func texts(replies []rueidis.RedisResult) (all []string) {
	for _, r := range replies {
		m, err := r.ToMessage()
		if r.NonRedisError() != nil {
			all = append(all, "! "+err.Error())
			continue
		}
		all = append(all, m.String())
	}
	return all
}

func TestDirectKeepsWhatHadComeWhenItsConnectionBreaks(t *testing.T) {
	p := newDirectPair(t)
	p.asks(3)
	p.says(t, ":1\r\n:2\r\n:")
	require.NoError(t, p.server.(*net.TCPConn).CloseWrite())
	replies := p.finish(p.talk(p.over, false))
	require.Len(t, replies, 3)
	for i, want := range []int64{1, 2} {
		n, err := replies[i].AsInt64()
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.ErrorIs(t, replies[2].NonRedisError(), io.EOF)
}

func TestDirectKeepsWhatHadComeWhenItsTimeIsOver(t *testing.T) {
	p := newDirectPair(t)
	p.asks(2)
	p.says(t, ":1\r\n")
	require.ErrorIs(t, p.talk(p.over, true), errLeft)
	ended := make(chan error)
	go func() { ended <- p.talk(p.over, false) }()
	p.ended.Store(true)
	p.interrupt()
	replies := p.finish(<-ended)
	n, err := replies[0].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.ErrorIs(t, replies[1].NonRedisError(), context.DeadlineExceeded)
}

// Who ends a round may come when it has just ended by itself.
func TestDirectTakesNoInterruptOfTheRoundBefore(t *testing.T) {
	for _, leads := range []bool{false, true} {
		p := newDirectPair(t)
		p.asks(1)
		p.says(t, ":1\r\n")
		require.NoError(t, p.talk(p.over, false))
		p.interrupt()
		p.asks(1)
		p.says(t, ":2\r\n")
		require.NoError(t, p.talk(p.over, leads))
		n, err := p.finish(nil)[0].AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
	}
}

func TestDirectOfARoundWhoseTimeIsOverSendsNothing(t *testing.T) {
	p := newDirectPair(t)
	p.ended.Store(true)
	p.interrupt()
	p.asks(1)
	require.ErrorIs(t, p.talk(p.over, false), context.DeadlineExceeded)
	require.NoError(t, p.conn.Close())
	sent, err := io.ReadAll(p.server)
	require.NoError(t, err)
	require.Empty(t, sent)
}

func TestDirectIsLeftByItsLeaderAndTheWorkerGoesOn(t *testing.T) {
	p := newDirectPair(t)
	p.asks(2)
	p.says(t, "*2\r\n:1\r\n$3\r\na")
	began := time.Now()
	require.ErrorIs(t, p.talk(p.over, true), errLeft)
	require.GreaterOrEqual(t, time.Since(began), leadMost)
	p.says(t, "bc\r\n")
	p.says(t, ">2\r\n+invalidate\r\n*0\r\n-OOM no\r\n") // a push is no reply
	require.NoError(t, p.talk(p.over, false))
	replies := p.finish(nil)
	values, err := replies[0].ToArray()
	require.NoError(t, err)
	text, err := values[1].ToString()
	require.NoError(t, err)
	require.Equal(t, "abc", text)
	refused, is := rueidis.IsRedisErr(replies[1].Error())
	require.True(t, is)
	require.Equal(t, "OOM no", refused.Error())
}

// A write that had to wait could not be cut: TLS would end with it.
func TestDirectIsLeftByItsLeaderBeforeAWriteThatMayWait(t *testing.T) {
	p := newDirectPair(t)
	p.begin()
	p.add([]string{"ECHO", strings.Repeat("x", 8<<20)}) // more than the sockets hold
	p.open(1, true)
	require.ErrorIs(t, p.talk(p.over, true), errLeft)
	require.Zero(t, p.sent)
	out := p.out
	heard := make(chan []byte)
	go func() {
		all := make([]byte, len(out))
		_, err := io.ReadFull(p.server, all)
		if err == nil {
			_, err = io.WriteString(p.server, "+OK\r\n")
		}
		if err != nil {
			all = nil
		}
		heard <- all
	}()
	require.NoError(t, p.talk(p.over, false))
	require.True(t, bytes.Equal(out, <-heard), "each byte went out once")
	text, err := p.finish(nil)[0].ToString()
	require.NoError(t, err)
	require.Equal(t, "OK", text)
}

func TestDirectRefusesWhatNobodyAskedFor(t *testing.T) {
	p := newDirectPair(t)
	p.asks(1)
	p.says(t, ":1\r\n:2\r\n")
	err := p.talk(p.over, false)
	if err == nil { // the second came later than the first
		p.asks(1)
		err = p.talk(p.over, false)
	}
	require.ErrorIs(t, err, ErrReply)
	_, err = p.conn.Conn.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDirectSeesThatItsConnectionHasEnded(t *testing.T) {
	p := newDirectPair(t)
	require.False(t, p.stale())
	p.says(t, "-ERR you are too slow\r\n")
	require.Eventually(t, p.stale, 10*time.Second, time.Millisecond, "nobody has asked for anything")
	require.EqualValues(t, 1, p.conn.guard.Refused())
	p = newDirectPair(t)
	require.NoError(t, p.server.Close())
	require.Eventually(t, p.stale, 10*time.Second, time.Millisecond)
	require.NoError(t, p.conn.Close())
	require.True(t, p.stale(), "closed here")
}

// With its last reply may come a part of what nobody has asked for: the rest would be read as the next round's reply.
func TestDirectIsOfNoMoreUseWithAPartOfAMessage(t *testing.T) {
	for _, part := range []string{">", ">2\r", ">2\r\n", ">2\r\n$1\r\na\r\n", "|1\r\n", "|1\r\n+a\r\n:1\r\n", "$20\r\n01", ":7"} {
		p := newDirectPair(t)
		p.peeker = nil // the part has been read
		p.asks(1)
		p.says(t, ":1\r\n"+part)
		require.NoError(t, p.talk(p.over, false))
		n, err := p.finish(nil)[0].AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		require.True(t, p.stale(), part)
	}
}

// UNSUBSCRIBE between MULTI and EXEC is answered so. The cache's form has no pushes.
func TestDirectReadsAPushWithinAnArray(t *testing.T) {
	p := newDirectPair(t)
	p.asks(1)
	p.says(t, "*3\r\n>2\r\n+unsubscribe\r\n+a\r\n:-72057594037927936\r\n:7\r\n")
	require.NoError(t, p.talk(p.over, false))
	values, err := p.finish(nil)[0].ToArray()
	require.NoError(t, err)
	require.Len(t, values, 3)
	inner, err := values[0].ToArray()
	require.NoError(t, err)
	require.Len(t, inner, 2)
	n, err := values[2].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
}

// saysAll is a dial to a server that answers each command with what it has.
func saysAll(t *testing.T, answers func(command string) string) DialFunc {
	return func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		client, server := net.Pipe()
		t.Cleanup(func() {
			_ = client.Close()
			_ = server.Close()
		})
		go func() {
			in := bufio.NewReader(server)
			for {
				words, err := readWords(in)
				if err != nil {
					return
				}
				if _, err := io.WriteString(server, answers(words[0])); err != nil {
					return
				}
			}
		}()
		return client, nil
	}
}

func readWords(in *bufio.Reader) (words []string, err error) {
	n, size := 0, 0
	if _, err = fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		if _, err = fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err = io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}

// anyReply is one of all kinds.
func anyReply(r *rand.Rand, depth int) string {
	text := func() string { return strings.Repeat("ab\r\nc"[:1+r.IntN(5)], r.IntN(4)) }
	line := strings.ReplaceAll(strings.ReplaceAll(text(), "\r", "x"), "\n", "y")
	n := r.IntN(4)
	many := func(n int) (all string) {
		for range n {
			all += anyReply(r, depth+1)
		}
		return all
	}
	kinds := 14
	if depth > 3 {
		kinds = 9
	}
	switch r.IntN(kinds) {
	case 0:
		return fmt.Sprintf(":%d\r\n", r.Int64()-r.Int64())
	case 1:
		return "+" + line + "\r\n"
	case 2:
		return "-OOM " + line + "\r\n"
	case 3:
		return "|1\r\n+a\r\n" + anyReply(r, depth+1) + "_\r\n"
	case 4:
		return "#t\r\n"
	case 5:
		return "#f\r\n"
	case 6:
		return "$-1\r\n"
	case 7:
		return ",1.5\r\n"
	case 8:
		t := text()
		return fmt.Sprintf("%c%d\r\n%s\r\n", "$!="[r.IntN(3)], len(t), t)
	case 9:
		return "*-1\r\n"
	case 10:
		return fmt.Sprintf("%%%d\r\n%s", n, many(2*n))
	case 11:
		return fmt.Sprintf("~%d\r\n%s", n, many(n))
	default:
		return fmt.Sprintf("*%d\r\n%s", n, many(n))
	}
}

// The client reads each reply itself, and it is made the client's message here: the two say the same.
func TestDirectReadsRepliesAsTheClientDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	said := ""
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"h:1"}, ForceSingleClient: true, AlwaysPipelining: true, PipelineMultiplex: -1,
		DisableCache: true, DisableRetry: true, DialCtxFn: saysAll(t, func(command string) string {
			switch command {
			case "HELLO":
				return "%2\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
			case "CLIENT":
				return "+OK\r\n"
			default:
				return said
			}
		}),
	})
	require.NoError(t, err)
	defer client.Close()
	p := newDirectPair(t)
	for range 2000 {
		said = anyReply(r, 0)
		theirs := client.Do(context.Background(), client.B().Arbitrary("LOOK").Build())
		p.asks(1)
		p.says(t, said)
		require.NoError(t, p.talk(p.over, false))
		ours := p.finish(nil)
		require.Equal(t, texts([]rueidis.RedisResult{theirs}), texts(ours), "%q", said)
		require.Equal(t, fmt.Sprint(theirs.Error()), fmt.Sprint(ours[0].Error()), "%q", said)
	}
	require.True(t, hasCacheForm())
}

// What a connection is to its client after a lane has taken it over.
func TestAHijackedConnectionIsIdleAndAliveToItsClient(t *testing.T) {
	p := newDirectPair(t)
	w := p.conn
	client := bufio.NewReader(w)
	ended := make(chan error)
	go func() { // as the client's reader
		for {
			line, err := client.ReadString('\n')
			if err == nil && line != pingReply {
				err = errors.New(line)
			}
			ended <- err
			if err != nil {
				return
			}
		}
	}()
	took, err := w.hijack(time.Minute)
	require.NoError(t, err)
	require.True(t, took)
	_, err = w.hijack(time.Minute)
	require.ErrorIs(t, err, errHijacked, "once")
	// Its PINGs are answered here.
	for range 3 {
		_, err := w.Write([]byte(pingCommand + pingCommand))
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	}
	// The lane speaks with the server.
	p.asks(1)
	p.says(t, ":1\r\n")
	require.NoError(t, p.talk(p.over, false))
	sent := make([]byte, len(p.out))
	_, err = io.ReadFull(p.server, sent)
	require.NoError(t, err)
	require.Equal(t, p.out, sent, "and no PING")
	// The client has nothing else to say.
	_, err = w.Write([]byte("*1\r\n$4\r\nQUIT\r\n"))
	require.ErrorIs(t, err, errHijacked)
	require.NoError(t, w.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	_, err = w.Write([]byte(pingCommand))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAConnectionWithoutAReaderIsNotHijacked(t *testing.T) {
	p := newDirectPair(t)
	took, err := p.conn.hijack(time.Millisecond)
	require.False(t, took)
	require.ErrorIs(t, err, errNotLeft)
}

// The race detector sees it if they do; and their commands would be counted wrongly.
func TestTheClientAndALaneNeverWriteAtOnce(t *testing.T) {
	for range 200 {
		p := newDirectPair(t)
		w := p.conn
		var writer, reader sync.WaitGroup
		writer.Go(func() {
			_, err := w.Write([]byte(pingCommand))
			assert.NoError(t, err)
		})
		reader.Go(func() { _, _ = w.Read(make([]byte, 64)) }) // the answer to that, or the end
		took, err := w.hijack(time.Minute)
		require.NoError(t, err)
		if took {
			w.out.scan([]byte(pingCommand)) // as a lane does
		}
		writer.Wait()
		require.EqualValues(t, 1, w.asked.sent.Load(), "of a connection that was taken the client's own is answered here")
		require.NoError(t, w.Close())
		reader.Wait()
	}
}

// Until it is decided whether the connection is taken over, the client's reader may be within a message: it would read
// a PONG as a part of it.
func TestAPingIsNotAnsweredBeforeTheConnectionIsTaken(t *testing.T) {
	for range 200 {
		h := newHijacked()
		var client sync.WaitGroup
		client.Go(func() {
			_, undone, err := h.write([]byte(pingCommand))
			assert.NoError(t, err)
			assert.True(t, undone, "it goes to the server")
		})
		client.Go(func() {
			_, undone, _ := h.read(make([]byte, 64))
			assert.True(t, undone, "nothing is read here")
		})
		<-h.entered
		runtime.Gosched()
		h.undo()
		client.Wait()
	}
}

// The client's reader was slow: what it has not read stays in the connection.
func TestALinkKeepsNoConnectionWithAReplyTooMany(t *testing.T) {
	p := newDirectPair(t)
	w := p.conn
	_, err := w.Write([]byte(pingCommand))
	require.NoError(t, err)
	p.says(t, pingReply)
	b := make([]byte, 64)
	_, err = w.Read(b)
	require.NoError(t, err)
	p.says(t, ":666\r\n")
	for !p.peeker.ready() {
		runtime.Gosched()
	}
	go func() {
		for w.hijacked.Load() == nil {
			runtime.Gosched()
		}
		_, _ = w.Read(b)
	}()
	g := &Guard{Own: true}
	word := g.claims.claim(claimWord)
	g.claims.sent(word, w)
	var closing world.Group
	client := new(fakeServer).one()
	l := &link{owned: g, from: &endpoint{}, pollers: new(atomic.Int32), wg: &closing}
	require.ErrorIs(t, l.hijack(&wire{client: client}, word), errStray)
	closing.Wait()
	require.True(t, client.closed())
}

// coalescing holds back what is written until it is let go: what TLS makes several records of comes in one read.
type coalescing struct {
	net.Conn
	held *bytes.Buffer // nil: nothing is held back
}

func (c *coalescing) Write(b []byte) (int, error) {
	if c.held != nil {
		return c.held.Write(b)
	}
	return c.Conn.Write(b)
}

// TLS keeps what it has read and not delivered; the connection beneath it is empty then.
func TestWhatTLSHasReadAlreadyIsNotTheNextAnswer(t *testing.T) {
	p := newDirectPair(t)
	authority := redistest.NewAuthority(t)
	beneath := &coalescing{Conn: p.server}
	server := tls.Server(beneath, &tls.Config{Certificates: []tls.Certificate{authority.Sign("server").Certificate}})
	client := tls.Client(p.conn.Conn, &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1"})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	require.NoError(t, client.Handshake())
	require.NoError(t, <-shaken)
	p.conn.Conn, p.peeker = client, newPeeker(client)

	p.asks(1)
	beneath.held = new(bytes.Buffer)
	for _, reply := range []string{":1\r\n", ":666\r\n"} {
		_, err := io.WriteString(server, reply)
		require.NoError(t, err)
	}
	_, err := beneath.Conn.Write(beneath.held.Bytes())
	require.NoError(t, err)
	require.NoError(t, p.talk(p.over, false))
	n, err := p.finish(nil)[0].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.True(t, p.stale())
}

// Its client has closed it and pings, to end a writer of its own that waits for a command: a PONG would leave that
// writer there for good.
func TestAClosedConnectionIsNotHijacked(t *testing.T) {
	p := newDirectPair(t)
	w := p.conn
	require.NoError(t, w.Close())
	took, err := w.hijack(time.Millisecond)
	require.False(t, took)
	require.ErrorIs(t, err, errBroke)
	require.True(t, w.hijacked.Load().closed, "a reader that is on its way to it is not kept")
	_, err = w.Write([]byte(pingCommand))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = w.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

// The client closes it between the lane's claim and the client's next word.
func TestAConnectionThatIsClosedWhileItIsHijackedEndsItsClient(t *testing.T) {
	for range 200 {
		p := newDirectPair(t)
		w := p.conn
		var client sync.WaitGroup
		client.Go(func() { _, _ = w.hijack(10 * time.Second) })
		client.Go(func() {
			assert.NoError(t, w.Close())
			_, err := w.Write([]byte(pingCommand))
			assert.ErrorIs(t, err, net.ErrClosed)
		})
		client.Go(func() {
			_, err := w.Read(make([]byte, 1))
			assert.Error(t, err)
		})
		client.Wait()
	}
}

// Its reply would be taken for the answer to the lane's first command.
func TestAConnectionOnWhichTheClientWaitsIsNotHijacked(t *testing.T) {
	p := newDirectPair(t)
	w := p.conn
	heard := make(chan string, 3)
	go func() { // as the client's reader
		for in := bufio.NewReader(w); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			heard <- line
		}
	}()
	_, err := w.Write([]byte(pingCommand))
	require.NoError(t, err)
	took, err := w.hijack(time.Minute)
	require.NoError(t, err)
	require.False(t, took)
	// It is the client's as before.
	p.says(t, pingReply)
	require.Equal(t, pingReply, <-heard)
	_, err = w.Write([]byte(pingCommand))
	require.NoError(t, err)
	sent := make([]byte, 2*len(pingCommand))
	_, err = io.ReadFull(p.server, sent)
	require.NoError(t, err)
	require.Equal(t, pingCommand+pingCommand, string(sent))
	p.says(t, pingReply)
	require.Equal(t, pingReply, <-heard)
	// Now nothing is on its way, and it is taken.
	took, err = w.hijack(time.Minute)
	require.NoError(t, err)
	require.True(t, took)
}

// Its caller goes on within about a millisecond, the op is answered later, and nothing is sent twice.
func TestALeaderLeavesARoundThatTakesLong(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{})
	a := newNodeAnswers()
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "first", a))).Code)
	require.NotNil(t, n.commands.cur.Load().direct, "the connection is the lane's own")
	// Led, and answered on the leader's goroutine.
	op := nodeOp(OpAcquire, "led", a)
	lead := led(t, n, op)
	require.Zero(t, a.count()-1)
	lead.Run()
	require.Equal(t, CodeGranted, a.await(t, op).Code)
	// Held back on its way.
	hold := p.Hold(faultproxy.Command("EVALSHA"), 1)
	op = nodeOp(OpAcquire, "held", a)
	lead = led(t, n, op)
	before := a.count()
	lead.Run()
	require.Equal(t, before, a.count(), "it has left")
	<-hold.C()
	// Who comes meanwhile does not lead: the worker has the lane.
	behind := nodeOp(OpAcquire, "behind", a)
	other, err := n.SubmitLed(behind, true)
	require.NoError(t, err)
	require.False(t, other.Is())
	p.ReleaseCommands()
	require.Equal(t, CodeGranted, a.await(t, op).Code)
	require.Equal(t, CodeGranted, a.await(t, behind).Code)
	require.Zero(t, n.Stats().Reconnects)
}

// led submits an op whose caller has to lead, as soon as nobody else has the lane.
func led(t *testing.T, n *Node, op *Op) Lead {
	t.Helper()
	require.Eventually(t, func() bool {
		l := n.lanes[0]
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.asleep
	}, nodeLong, time.Millisecond)
	lead, err := n.SubmitLed(op, true)
	require.NoError(t, err)
	require.True(t, lead.Is())
	return lead
}

// A leader does not dial: that takes as long as it takes.
func TestALeaderLeavesTheDialToTheWorker(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{})
	a := newNodeAnswers()
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "first", a))).Code)
	op := nodeOp(OpAcquire, "second", a)
	lead := led(t, n, op)
	p.Pause() // so the dial ends in vain
	n.commands.giveUp(n.commands.cur.Load())
	lead.Run()
	require.Equal(t, 1, a.count())
	p.Resume()
	require.Equal(t, CodeGranted, a.await(t, op).Code)
	lead, err := n.SubmitLed(nodeOp(OpInspect, "third", a), true)
	require.NoError(t, err)
	lead.Run()
}

// Close comes while a caller has the lane.
func TestCloseWaitsForALeaderOnly(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{})
	a := newNodeAnswers()
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "first", a))).Code)
	op := nodeOp(OpAcquire, "second", a)
	lead := led(t, n, op)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		n.Close()
	}()
	l := n.lanes[0]
	require.Eventually(t, l.submitRefused, nodeLong, time.Millisecond)
	lead.Run()
	l.mu.Lock()
	asleep := l.asleep
	l.mu.Unlock()
	require.False(t, asleep, "the worker is on its way: Close waits for nothing else")
	<-closed
	require.Equal(t, CodeGranted, a.await(t, op).Code, "what was queued is still sent")
}

func (l *lane) submitRefused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func TestDirectKeepsEachText(t *testing.T) {
	p := newDirectPair(t)
	p.asks(3)
	p.says(t, "$3\r\nabc\r\n*2\r\n:1\r\n$3\r\ndef\r\n$3\r\nghi\r\n")
	require.NoError(t, p.talk(p.over, false))
	replies := p.finish(nil)
	first, err := replies[0].ToString()
	require.NoError(t, err)
	values, err := replies[1].ToArray()
	require.NoError(t, err)
	second, err := values[1].ToString()
	require.NoError(t, err)
	third, err := replies[2].ToString()
	require.NoError(t, err)
	// The next round uses its memory again, as far as it may.
	p.asks(1)
	p.says(t, "$9\r\nzzzzzzzzz\r\n")
	require.NoError(t, p.talk(p.over, false))
	p.finish(nil)
	require.Equal(t, []string{"abc", "def", "ghi"}, []string{first, second, third})
}

// Nothing was on its way when the connection ended: the next command goes over another, and is answered.
func TestALaneSeesThatItsConnectionHasEnded(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	n := nodeOpen(t, s.Addr(), Options{})
	a := newNodeAnswers()
	for i := range 20 {
		require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("before:", i), a))).Code)
		d := n.commands.cur.Load().direct
		s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.Eventually(t, func() bool {
			l := n.lanes[0]
			l.mu.Lock() // nobody else looks meanwhile
			defer l.mu.Unlock()
			return l.asleep && d.stale()
		}, nodeLong, 100*time.Microsecond)
		r := a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, fmt.Sprint("after:", i), a)))
		require.Equal(t, CodeGranted, r.Code, "%v", r.Err)
	}
}

// A server that closes what is idle for two seconds does not close it: it is asked for a sign of life.
func TestALaneKeepsItsIdleConnectionAlive(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	s.Do(t, "CONFIG", "SET", "timeout", "2")
	n := nodeOpen(t, s.Addr(), Options{})
	a := newNodeAnswers()
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "before", a))).Code)
	before := n.commands.cur.Load()
	require.NotNil(t, before.direct)
	// It would be closed by now: the client's own connection and the lane's say one a second each.
	pings := func() (n int) {
		m := regexp.MustCompile(`cmdstat_ping:calls=(\d+)`).FindStringSubmatch(s.Do(t, "INFO", "commandstats"))
		_, err := fmt.Sscan(m[1], &n)
		require.NoError(t, err)
		return n
	}
	first := pings()
	require.Eventually(t, func() bool { return pings() >= first+8 }, nodeLong, 50*time.Millisecond)
	require.Same(t, before, n.commands.cur.Load())
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "after", a))).Code)
	require.Zero(t, n.Stats().Reconnects)
}

// A server that is stopped while nothing is on its way: the connection is given up, and the next command has another.
func TestALaneGivesUpAnIdleConnectionThatGivesNoSign(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	p := faultproxy.Run(t, s.Addr())
	n := nodeOpen(t, p.Addr(), Options{AttemptLimit: 300 * time.Millisecond})
	a := newNodeAnswers()
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "before", a))).Code)
	before := n.commands.cur.Load()
	p.Pause()
	require.Eventually(t, func() bool { return n.commands.cur.Load() != before }, nodeLong, 10*time.Millisecond)
	p.Resume()
	l := n.lanes[0]
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.asleep
	}, nodeLong, time.Millisecond)
	l.mu.Lock()
	require.False(t, l.reported, "what comes next is listed if it takes long")
	l.mu.Unlock()
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "after", a))).Code)
}

func TestDirectPassesOverAttributes(t *testing.T) {
	// Of a push: it is no reply for that.
	p := newDirectPair(t)
	p.asks(1)
	p.says(t, "|1\r\n+a\r\n$1\r\nb\r\n>2\r\n+x\r\n+y\r\n|0\r\n:7\r\n")
	require.NoError(t, p.talk(p.over, false))
	n, err := p.finish(nil)[0].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
	// Any number of them: the stack does not grow with it.
	in := append(bytes.Repeat([]byte("|0\r\n"), 4<<20), ":7\r\n"...)
	c := cacheForm{bytes: []byte(cacheHead)}
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	require.Equal(t, len(in), c.add(in, 0))
	n, err = c.message().AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
}

// By TLS the end of a connection is a message, behind which the end of the connection stands.
func TestDirectSeesTheEndOfTLS(t *testing.T) {
	a := redistest.NewAuthority(t)
	pair := a.Sign("server")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		at, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair.Certificate}})
		require.NoError(t, err)
		accepted := make(chan net.Conn, 1)
		go func() {
			defer close(accepted)
			if conn, err := at.Accept(); err == nil {
				if _, err := io.WriteString(conn, "+OK\r\n"); err == nil {
					accepted <- conn
				}
			}
		}()
		conn, err := tls.Dial("tcp", at.Addr().String(), &tls.Config{RootCAs: a.Pool(), MaxVersion: version})
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, len("+OK\r\n")))
		require.NoError(t, err)
		d := &direct{conn: (&Guard{Own: true}).Watch(conn).(*watched), peeker: newPeeker(conn)}
		require.False(t, d.stale(), "what the handshake leaves behind came before the first reply")
		server := <-accepted
		require.NoError(t, server.Close())
		require.Eventually(t, d.stale, 10*time.Second, time.Millisecond)
		require.NoError(t, conn.Close())
		require.NoError(t, at.Close())
	}
}

// A reply that comes when nothing is on its way is not the answer to what is asked next: "second" is somebody else's.
func TestALaneTakesNoReplyThatNobodyAskedFor(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	a := newNodeAnswers()
	other := nodeOpen(t, s.Addr(), Options{})
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, other, nodeOp(OpAcquire, "second", a))).Code)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = at.Close() })
	again := make(chan func() error, 16) // says once more what was last said
	go proxied(at, s.Addr(), again)
	n := nodeOpen(t, at.Addr().String(), Options{})
	require.Equal(t, CodeGranted, a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "first", a))).Code)
	d := n.commands.cur.Load().direct
	require.NotNil(t, d)
	sayAgain := <-again
	for len(again) > 0 {
		sayAgain = <-again
	}
	l := n.lanes[0]
	require.Eventually(t, func() bool { // nobody looks before it is there
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.asleep {
			return false
		}
		require.NoError(t, sayAgain())
		for !d.peeker.ready() {
			runtime.Gosched()
		}
		return true
	}, nodeLong, time.Millisecond)
	r := a.await(t, nodeSubmit(t, n, nodeOp(OpAcquire, "second", a)))
	require.Equal(t, CodeBusy, r.Code, "%v", r.Err)
	require.EqualValues(t, 1, n.opts.Guard.Refused())
}

// proxied passes on what is said, and for each reply to an EVALSHA what says it once more.
func proxied(at net.Listener, to string, again chan<- func() error) {
	for {
		client, err := at.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		var called atomic.Bool
		go func() {
			defer server.Close()
			buf := make([]byte, 1<<20)
			for {
				n, err := client.Read(buf)
				if err != nil {
					return
				}
				called.Store(bytes.Contains(buf[:n], []byte("EVALSHA")) && bytes.Contains(buf[:n], []byte("first")))
				if _, err := server.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
		go func() {
			defer client.Close()
			buf := make([]byte, 1<<20)
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				said := bytes.Clone(buf[:n])
				if called.Load() {
					again <- func() error { _, err := client.Write(said); return err }
				}
				if _, err := client.Write(said); err != nil {
					return
				}
			}
		}()
	}
}
