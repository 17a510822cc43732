package redisproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ReplyError is an error reply of a server.
type ReplyError string

// Error returns the reply's text.
func (e ReplyError) Error() string { return string(e) }

// Push is an out-of-band message of a RESP3 connection.
type Push []any

// Conn is a raw connection to a server, for what a client library would hide:
// pipelines cut in half, replies that are never read, pub/sub. It speaks RESP2, and
// RESP3 after a HELLO 3. One goroutine may send while another receives.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial opens a raw connection.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("redisproc: %w", err)
	}
	return &Conn{Conn: nc, r: bufio.NewReader(nc)}, nil
}

// Do sends one command and returns its reply; see [Conn.Receive].
func (c *Conn) Do(ctx context.Context, args ...string) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Receive(ctx)
}

// Send writes one command.
func (c *Conn) Send(args ...string) error {
	_, err := c.Write(AppendCommand(nil, args...))
	return err
}

// AppendCommand appends a command in RESP to b.
func AppendCommand(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, "\r\n"...)
	for _, a := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(a)), 10)
		b = append(b, "\r\n"...)
		b = append(b, a...)
		b = append(b, "\r\n"...)
	}
	return b
}

// Receive reads one reply: a string, int64, bool, nil, []any (maps are flattened)
// or [Push]. An error reply is returned as the error, a [ReplyError]; inside an
// array it is an element. After ctx ended the connection is of no more use.
func (c *Conn) Receive(ctx context.Context) (any, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	v, err := c.read()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	if e, ok := v.(ReplyError); ok {
		return nil, e
	}
	return v, nil
}

// read reads one value of any RESP type.
func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("redisproc: empty line in a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ',', '(':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '_':
		return nil, nil
	case '#':
		return rest == "t", nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return nil, fmt.Errorf("redisproc: reply line %q", line)
	}
	return c.readSized(kind, n)
}

// readSized reads the body of a value whose first line gives its size.
func (c *Conn) readSized(kind byte, n int) (any, error) {
	if n < 0 {
		return nil, nil
	}
	switch kind {
	case '$', '=', '!':
		return c.readBulk(kind, n)
	case '*', '~':
		return c.readItems(n)
	case '%':
		return c.readItems(2 * n)
	case '>':
		items, err := c.readItems(n)
		return Push(items), err
	case '|': // attributes come before the value they belong to
		if _, err := c.readItems(2 * n); err != nil {
			return nil, err
		}
		return c.read()
	}
	return nil, fmt.Errorf("redisproc: reply of type %q", kind)
}

func (c *Conn) readBulk(kind byte, n int) (any, error) {
	body := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return nil, err
	}
	text := string(body[:n])
	switch kind {
	case '!':
		return ReplyError(text), nil
	case '=':
		return text[min(len(text), len("txt:")):], nil
	default:
		return text, nil
	}
}

func (c *Conn) readItems(n int) ([]any, error) {
	items := make([]any, 0, min(n, 1024))
	for range n {
		v, err := c.read()
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

// Text renders a reply as redis-cli does when it writes to a pipe, except that nil
// is "(nil)": numbers in decimal, the items of arrays one a line.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case string:
		return v
	case []any:
		lines := make([]string, len(v))
		for i, item := range v {
			lines[i] = Text(item)
		}
		return strings.Join(lines, "\n")
	case Push:
		return Text([]any(v))
	default:
		return fmt.Sprint(v)
	}
}
