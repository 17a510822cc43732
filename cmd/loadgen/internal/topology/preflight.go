package topology

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// How long a server of --addr may take to show that it is one: to accept a connection, and then to answer, beside what
// the way there takes (four times there and back: TCP's own, two of TLS, the question).
const (
	acceptTimeout    = 2 * time.Second
	preflightTimeout = 600 * time.Millisecond
	trips            = 4
)

// greet asks who listens at the addresses, before a client tries again and again: one that answers is enough, the
// others are found.
func (s *Server) greet(ctx context.Context, o rueidis.ClientOption) error {
	if s.Ours() || len(o.InitAddress) == 0 || o.DialCtxFn != nil { // a URL of a socket brings a way to dial
		return nil
	}
	security := o.TLSConfig
	if o.Sentinel.MasterSet != "" {
		security = o.Sentinel.TLSConfig
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(o.InitAddress))
	for _, addr := range o.InitAddress {
		go func() { answers <- speaksRedis(ctx, addr, security) }() // ends with ctx
	}
	var first error
	for range o.InitAddress {
		err := <-answers
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// speaksRedis reports whether a server that speaks the protocol listens at addr, and if not, what does.
func speaksRedis(ctx context.Context, addr string, security *tls.Config) error {
	began := time.Now()
	plain, err := (&net.Dialer{Timeout: acceptTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", addr, unwrapDial(err))
	}
	defer func() { _ = plain.Close() }() // nothing was written that could be lost
	defer context.AfterFunc(ctx, func() { _ = plain.SetDeadline(time.Unix(1, 0)) })()
	now := time.Now()
	_ = plain.SetDeadline(now.Add(preflightTimeout + trips*now.Sub(began))) // one that is closed refuses what follows, too
	conn := plain
	if security != nil {
		security = security.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil && security.ServerName == "" {
			security.ServerName = host
		}
		secure := tls.Client(plain, security)
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("connect to %s over TLS: %w", addr, handshakeError(err))
		}
		conn = secure
	}
	// What refuses a client certificate says so after the handshake and closes: the write may fail by that close before
	// the reason is read, and the reason can still be read then.
	_, wrote := conn.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	answer := make([]byte, 256)
	n, err := conn.Read(answer)
	if n == 0 {
		var alert *net.OpError
		if wrote != nil && (!errors.As(err, &alert) || alert.Op != "remote error") {
			return fmt.Errorf("connect to %s: %w", addr, wrote)
		}
		return fmt.Errorf("connect to %s: %w", addr, noAnswer(err, security != nil))
	}
	if problem := strangeAnswer(answer[:n]); problem != "" {
		return fmt.Errorf("connect to %s: %s", addr, problem)
	}
	return nil
}

// unwrapDial leaves out the address, which the sentence has already.
func unwrapDial(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Timeout() {
		return fmt.Errorf("nobody answers within %v", acceptTimeout)
	}
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// handshakeError says what a handshake that failed means.
func handshakeError(err error) error {
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &record) && bytes.HasPrefix(record.RecordHeader[:], []byte("HTTP")):
		return errors.New("it is an HTTP server, not Redis")
	case errors.As(err, &record), errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return errors.New("the server does not speak TLS on this port: omit --tls, or give the port that does")
	}
	return err
}

// noAnswer says what a connection without an answer means. A server that expects TLS hangs up on what is not.
func noAnswer(err error, secure bool) error {
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("the server accepts connections and does not answer within %v", preflightTimeout)
	case secure: // with TLS 1.3 a certificate is refused after the handshake
		return err
	}
	return errors.New("the server hangs up without an answer: if it expects TLS, add --tls")
}

// strangeAnswer says who gives such an answer to PING; "" for a server that is to be talked to.
func strangeAnswer(answer []byte) string {
	line, _, _ := strings.Cut(string(answer), "\r\n")
	const alert, handshake = 0x15, 0x16 // records of TLS
	switch answer[0] {
	case '+', '$':
		return ""
	case '-':
		if strings.HasPrefix(line, "-DENIED") || strings.Contains(line, "max number of clients") {
			first, _, _ := strings.Cut(line[1:], ". ")
			return "the server refuses connections: " + resp.Printable(first)
		}
		return "" // it wants a password first, or is busy: the client learns more
	case alert, handshake:
		return "the server expects TLS: add --tls, or give a rediss:// URL"
	}
	if strings.HasPrefix(line, "HTTP/") || strings.HasPrefix(strings.ToLower(line), "<!doctype html") {
		return "it is an HTTP server, not Redis"
	}
	return fmt.Sprintf("it is no Redis: it answers PING with %.40q", line)
}

// inspect refuses a server on which no lock could be taken: a replica, a sentinel, one that is full. What it will not
// say is no reason.
func (s *Server) inspect(ctx context.Context, cfg *config.Config) error {
	if s.Ours() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	for addr, node := range s.Client.Nodes() {
		if text, err := node.Do(ctx, node.B().Info().Build()).ToString(); err == nil {
			if problem := unfit(parseInfo(text)); problem != "" {
				return fmt.Errorf("%s %s", resp.Printable(addr), problem)
			}
		}
	}
	probe := cfg.LockName('p', 0)
	err := s.Client.Do(ctx, s.Client.B().Set().Key(probe).Value("").Px(time.Second).Build()).Error()
	if answer, ok := rueidis.IsRedisErr(err); ok {
		for _, class := range []string{"READONLY", "OOM", "MISCONF", "NOREPLICAS"} {
			if strings.HasPrefix(answer.Error(), class) {
				return fmt.Errorf("%s refuses to be written: %s", s.Where(), s.Hide(err))
			}
		}
	}
	return nil
}

// unfit says why a server that gives such an INFO cannot hold locks; "" if it can. A replica of a cluster sends its
// clients to its master.
func unfit(info map[string]string) string {
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	switch {
	case info["redis_mode"] == "sentinel":
		return "is a sentinel: give --master-name with the name of the master it watches"
	case info["redis_mode"] == "cluster" && info["role"] == "slave":
		return ""
	case info["role"] == "slave":
		return fmt.Sprintf("is a replica of %s and refuses to be written: give its master",
			resp.Printable(net.JoinHostPort(info["master_host"], info["master_port"])))
	case most > 0 && used >= most && info["maxmemory_policy"] == "noeviction":
		return fmt.Sprintf("is full: it uses %d of its maxmemory of %d bytes and evicts nothing", used, most)
	}
	return ""
}
