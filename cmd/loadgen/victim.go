package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

// measuring is what a victim says on standard error when its load begins.
const measuring = "measuring"

// victim is another loadgen process with the same scenario on the same names, there to be killed.
type victim struct {
	cmd   *exec.Cmd
	life  io.Closer     // its standard input: it ends with that, also if we are killed
	ready chan struct{} // closed when it has begun
	gone  chan struct{} // closed when it has ended
	said  []string      // on standard error; read after gone
}

// startVictim starts it. It is to be ended by kill.
func startVictim(cfg *config, srv *server) (*victim, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &victim{cmd: exec.Command(path, victimArgs(cfg, srv)...), ready: make(chan struct{}), gone: make(chan struct{})}
	ownGroup(v.cmd)
	if v.life, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := v.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	go v.listen(said) // ends with the process
	return v, nil
}

func (v *victim) listen(said io.Reader) {
	defer close(v.gone)
	lines, begun := bufio.NewScanner(said), false
	for lines.Scan() {
		if lines.Text() == measuring && !begun {
			begun = true
			close(v.ready)
			continue
		}
		v.said = append(v.said, lines.Text())
	}
	_ = v.cmd.Wait() // it was killed, or what it said says why
}

// await waits until its load has begun.
func (v *victim) await(ctx context.Context) error {
	select {
	case <-v.ready:
		return nil
	case <-v.gone:
		return fmt.Errorf("the other client ended by itself: %s", strings.Join(v.said, "; "))
	case <-ctx.Done():
		return fmt.Errorf("the other client did not begin: %w", ctx.Err())
	}
}

// kill ends it without a last word, and reports whether it was still there to be killed.
func (v *victim) kill() error {
	err := v.cmd.Process.Kill()
	<-v.gone
	_ = v.life.Close() // the process has closed the other end
	if errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("the other client ended by itself: %s", strings.Join(v.said, "; "))
	}
	return err
}

// victimArgs make another loadgen do what this one does.
func victimArgs(cfg *config, srv *server) []string {
	args := []string{
		"run", "--victim", "--scenario", cfg.scenario, "--api", cfg.api,
		"--clients", strconv.Itoa(cfg.clients), "--engines", strconv.Itoa(cfg.engines), "--keys", strconv.Itoa(cfg.keys),
		"--lease", cfg.lease.String(), "--prefix", cfg.prefix, "--seed", strconv.FormatUint(cfg.seed+1, 10),
		"--duration", (2*cfg.duration + longestStep).String(), "--warmup", "0s",
		"--check-server", "off", "--no-progress", "--json", "-",
	}
	for _, addr := range victimAddrs(srv) {
		args = append(args, "--addr", addr)
	}
	if cfg.user != "" {
		args = append(args, "--user", cfg.user)
	}
	if cfg.secretFile != "" { // else it inherits the environment
		args = append(args, "--password-file", cfg.secretFile)
	}
	if cfg.scenario == "lock" || cfg.scenario == "contend" {
		args = append(args, "--kind", cfg.kind)
	}
	if cfg.scenario == "rw" {
		args = append(args, "--read-share", strconv.FormatFloat(cfg.readShare, 'g', -1, 64))
	}
	if !cfg.contends() {
		return append(args, "--inflight", strconv.Itoa(cfg.inflight))
	}
	args = append(args, "--hold", cfg.hold.String(), fmt.Sprintf("--no-handoff=%v", cfg.noHandOff))
	if cfg.witness != "" {
		args = append(args, "--witness", cfg.witness)
	}
	return args
}

// victimAddrs are the servers for another process. Sentinels are named by a URL.
func victimAddrs(srv *server) []string {
	if srv.sentinel == nil {
		return srv.addrs
	}
	query := url.Values{"master_set": {redisproc.MasterName}, "addr": srv.addrs[1:]}
	return []string{(&url.URL{Scheme: "redis", Host: srv.addrs[0], RawQuery: query.Encode()}).String()}
}

// endWithInput ends the process when standard input does. A victim has nothing to give back.
func endWithInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(statusInterrupted)
}
