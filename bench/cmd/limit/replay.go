package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// endMark is what the last command of a turn has the server say.
const endMark = "the-end-of-the-turn"

// replay plays a recording again and again until the time is over, and says how many pairs that were a second.
func replay(ctx context.Context, addr string, rec recording, length time.Duration) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(rec.conns))
	players := make([]*player, 0, len(rec.conns))
	defer func() {
		for _, p := range players {
			_ = p.conn.Close() // nothing is said any more
		}
	}()
	for _, c := range rec.conns {
		p, err := newPlayer(ctx, addr, c)
		if err != nil {
			return 0, err
		}
		players = append(players, p)
	}
	// All play the recording equally often: one that ends sooner waits for the others.
	began, times := time.Now(), 0
	for ; time.Since(began) < length && ctx.Err() == nil; times++ {
		for i, p := range players {
			wg.Go(func() { errs[i] = p.play() })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
	}
	return float64(times*rec.pairs) / time.Since(began).Seconds(), ctx.Err()
}

// A player is one connection of a replay.
type player struct {
	conn    net.Conn
	bytes   []byte
	answers int
	part    []byte // of the answers
}

func newPlayer(ctx context.Context, addr string, c commands) (*player, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // whoever reads or writes sees that
	mark := fmt.Sprintf("*2\r\n$4\r\nPING\r\n$%d\r\n%s\r\n", len(endMark), endMark)
	answers := c.answers + len(fmt.Sprintf("$%d\r\n%s\r\n", len(endMark), endMark))
	return &player{conn, append(bytes.Clone(c.bytes), mark...), answers, make([]byte, 256<<10)}, nil
}

// play writes the recording once, and reads what is answered to its end. Answers of another length are not those that
// the engine had: a lock that is refused is no pair.
func (p *player) play() error {
	wrote := make(chan error, 1)
	go func() { // ends with the connection at the latest
		_, err := p.conn.Write(p.bytes)
		wrote <- err
	}()
	kept := copy(p.part, "\r\n") // what the parts before ended with: a mark, or the sign of an error, may be cut
	for answers := 0; ; {
		n, err := p.conn.Read(p.part[kept:])
		if err != nil {
			return errors.Join(err, p.conn.Close(), <-wrote)
		}
		answers += n
		said := p.part[:kept+n]
		if at := bytes.Index(said, []byte("\r\n-")); at >= 0 {
			text, _, _ := bytes.Cut(said[at+2:], []byte("\r\n"))
			return errors.Join(fmt.Errorf("the server answered %q", text), p.conn.Close(), <-wrote)
		}
		if bytes.Contains(said, []byte(endMark)) {
			if answers != p.answers {
				return errors.Join(fmt.Errorf("%d bytes of answers, and %d to the engine", answers, p.answers), <-wrote)
			}
			return <-wrote
		}
		kept = copy(p.part, said[max(0, len(said)-len(endMark)):])
	}
}
