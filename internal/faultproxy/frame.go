package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	maxDepth = 128       // of nested aggregates
	maxSize  = 512 << 20 // of one bulk string, and of items in one aggregate
)

// errProtocol means that the bytes are not RESP as this proxy knows it.
var errProtocol = errors.New("faultproxy: not RESP")

// readCommand reads one command, an array of bulk strings.
func readCommand(r *bufio.Reader) (cmd []string, raw []byte, err error) {
	raw, kind, err := readFrame(r, nil, 0)
	if err != nil {
		return nil, nil, err
	}
	if kind != '*' {
		return nil, nil, fmt.Errorf("%w: a command of type %q", errProtocol, kind)
	}
	return items(raw), raw, nil
}

// readReply reads one reply or push, with the attributes before it. Its type is that
// of the frame after them, which begins at raw[start].
func readReply(r *bufio.Reader) (raw []byte, start int, err error) {
	for {
		start = len(raw)
		var kind byte
		if raw, kind, err = readFrame(r, raw, 0); err != nil || kind != '|' {
			return raw, start, err
		}
	}
}

// readFrame appends the bytes of one value of RESP2 or RESP3 to raw.
func readFrame(r *bufio.Reader, raw []byte, depth int) (_ []byte, kind byte, err error) {
	start := len(raw)
	if raw, err = readLine(r, raw); err != nil {
		return raw, 0, err
	}
	line := raw[start : len(raw)-2]
	if len(line) == 0 || depth > maxDepth {
		return raw, 0, fmt.Errorf("%w: empty line, or nested too deep", errProtocol)
	}
	kind = line[0]
	if bytes.IndexByte([]byte("+-:_,#("), kind) >= 0 {
		return raw, kind, nil
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n > maxSize {
		return raw, kind, fmt.Errorf("%w: line %.40q", errProtocol, line)
	}
	raw, err = readBody(r, raw, kind, n, depth)
	return raw, kind, err
}

// readBody appends what follows the first line of a sized value.
func readBody(r *bufio.Reader, raw []byte, kind byte, n, depth int) ([]byte, error) {
	if n < 0 { // null
		return raw, nil
	}
	switch kind {
	case '$', '=', '!':
		return readBytes(r, raw, n+2)
	case '*', '~', '>':
		return readItems(r, raw, n, depth)
	case '%', '|':
		return readItems(r, raw, 2*n, depth)
	}
	return raw, fmt.Errorf("%w: type %q", errProtocol, kind)
}

func readItems(r *bufio.Reader, raw []byte, n, depth int) ([]byte, error) {
	for i := 0; i < n; {
		var kind byte
		var err error
		if raw, kind, err = readFrame(r, raw, depth+1); err != nil {
			return raw, err
		}
		if kind != '|' { // attributes belong to the item after them
			i++
		}
	}
	return raw, nil
}

// readLine appends one line with its CRLF.
func readLine(r *bufio.Reader, raw []byte) ([]byte, error) {
	start := len(raw)
	for {
		part, err := r.ReadSlice('\n')
		raw = append(raw, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return raw, err
		}
	}
	if len(raw)-start < 2 || raw[len(raw)-2] != '\r' {
		return raw, fmt.Errorf("%w: a line without CR", errProtocol)
	}
	return raw, nil
}

// readBytes appends n bytes, growing with what arrives and not with what is promised.
func readBytes(r *bufio.Reader, raw []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 1<<20)
		start := len(raw)
		raw = append(raw, make([]byte, step)...)
		got, err := io.ReadFull(r, raw[start:])
		if err != nil {
			return raw[:start+got], err
		}
		n -= step
	}
	return raw, nil
}

// items returns the strings and integers that a frame of one level begins with.
func items(raw []byte) []string {
	_, rest, _ := bytes.Cut(raw, []byte("\r\n"))
	var texts []string
	for {
		line, body, ok := bytes.Cut(rest, []byte("\r\n"))
		if !ok || len(line) == 0 {
			return texts
		}
		switch line[0] {
		case '+', ':':
			texts, rest = append(texts, string(line[1:])), body
		case '$':
			n, err := strconv.Atoi(string(line[1:]))
			if err != nil || n < 0 || n+2 > len(body) {
				return texts
			}
			texts, rest = append(texts, string(body[:n])), body[n+2:]
		default:
			return texts
		}
	}
}
