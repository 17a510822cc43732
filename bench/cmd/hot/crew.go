package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-786ebc8c/holdfast/bench/hot"
)

// endGrace is how long a worker may take to end before it is killed.
const endGrace = 20 * time.Second

// crew is the processes that contend.
type crew struct{ hands []*hand }

// hand is one of them, seen from the first process.
type hand struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	answers *json.Decoder
}

// startCrew starts the processes and waits until their clients are connected.
func startCrew(cfg config, dir string) (*crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := new(crew)
	first := setup{Addr: cfg.addr, Impls: cfg.impls, Callers: cfg.callers, Witness: filepath.Join(dir, "witness")}
	for range cfg.procs {
		h, err := startHand(self)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.hands = append(c.hands, h)
		if err := h.orders.Encode(first); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	for _, h := range c.hands {
		if _, err := h.answer(); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

func startHand(self string) (*hand, error) {
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &hand{cmd: cmd, in: in, orders: json.NewEncoder(in), answers: json.NewDecoder(out)}, nil
}

func (h *hand) answer() (answer, error) {
	var a answer
	if err := h.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("process %d ended: %w", h.cmd.Process.Pid, err)
	}
	if a.Failed != "" {
		return a, fmt.Errorf("process %d: %s", h.cmd.Process.Pid, a.Failed)
	}
	return a, nil
}

// play warms everybody up and goes through the rounds.
func (c *crew) play(ctx context.Context, cfg config, r *report, stderr io.Writer) error {
	if cfg.warmup > 0 {
		for i := range cfg.impls {
			if _, err := c.turn(cfg, i, cfg.warmup); err != nil {
				return err
			}
		}
	}
	for n := range cfg.rounds {
		for i, name := range cfg.impls {
			if ctx.Err() != nil {
				return nil // with what there is
			}
			answers, err := c.turn(cfg, i, cfg.duration)
			if err != nil {
				return err
			}
			if err := r.Impls[i].add(answers); err != nil {
				return err
			}
			rates := r.Impls[i].Rounds
			_, _ = fmt.Fprintf(stderr, "round %d/%d %-20s %10.0f grants/s\n", n+1, cfg.rounds, name, rates[len(rates)-1])
		}
	}
	return nil
}

// turn lets every process contend with implementation i at the same time.
func (c *crew) turn(cfg config, i int, length time.Duration) ([]answer, error) {
	hands, callers := c.hands, cfg.callers
	if slices.ContainsFunc(hot.Impls(), func(m hot.Impl) bool { return m.Local && m.Name == cfg.impls[i] }) {
		hands, callers = hands[:1], cfg.callers*cfg.procs
	}
	for _, h := range hands {
		if err := h.orders.Encode(order{Impl: i, Callers: callers, Hold: cfg.hold, Duration: length}); err != nil {
			return nil, err
		}
	}
	answers := make([]answer, len(hands))
	for n, h := range hands {
		var err error
		if answers[n], err = h.answer(); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// stop ends the processes: they end when there is nothing more to read.
func (c *crew) stop() error {
	var errs []error
	for _, h := range c.hands {
		_ = h.in.Close() // one that is gone needs no end
		kill := time.AfterFunc(endGrace, func() { _ = h.cmd.Process.Kill() })
		if err := h.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", h.cmd.Process.Pid, err))
		}
		kill.Stop()
	}
	return errors.Join(errs...)
}
