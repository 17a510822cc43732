package chaos

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
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
	"github.com/seed-786ebc8c/holdfast/internal/redisproc"
)

// Measuring is what a victim says on standard error when its load begins.
const Measuring = "measuring"

// victimHold is how long a victim keeps permits at least. It has one caller, so that what it has while it keeps them
// is known to the last permit: nothing else of it is on its way.
const victimHold = 50 * time.Millisecond

// victim is another loadgen process with the same scenario on the same names, there to be killed.
type victim struct {
	cmd   *exec.Cmd
	life  io.Closer     // its standard input: it ends with that, also if we are killed
	ready chan struct{} // closed when it has begun
	gone  chan struct{} // closed when it has ended
	said  []string      // on standard error; read after gone
}

// startVictim starts it. It is to be ended by kill.
func startVictim(cfg *config.Config, srv *topology.Server) (*victim, error) {
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
		if lines.Text() == Measuring && !begun {
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
func victimArgs(cfg *config.Config, srv *topology.Server) []string {
	args := []string{
		"run", "--victim", "--scenario", cfg.Scenario, "--api", cfg.API,
		"--prefix", cfg.Prefix, "--seed", strconv.FormatUint(cfg.Seed+1, 10),
		"--duration", (2*cfg.Duration + LongestStep).String(), "--warmup", "0s",
		"--check-server", "off", "--no-progress", "--json", "-",
	}
	hold := cfg.Hold
	if cfg.CountsPermits() {
		hold = max(hold, victimHold)
		args = append(args, "--clients", "1", "--permits", strconv.Itoa(cfg.Permits), "--take", strconv.Itoa(cfg.Take))
	} else {
		args = append(args, "--clients", strconv.Itoa(cfg.Clients), "--engines", strconv.Itoa(cfg.Engines),
			"--keys", strconv.Itoa(cfg.Keys))
	}
	if cfg.HasLease() {
		args = append(args, "--lease", cfg.Lease.String())
	}
	for _, addr := range victimAddrs(srv) {
		args = append(args, "--addr", addr)
	}
	args = append(args, loginArgs(cfg)...)
	if cfg.Scenario == "lock" || cfg.Scenario == "contend" {
		args = append(args, "--kind", cfg.Kind, "--linger", cfg.Linger.String())
	}
	if cfg.Scenario == "rw" {
		args = append(args, "--read-share", strconv.FormatFloat(cfg.ReadShare, 'g', -1, 64))
	}
	if cfg.Scenario == "multi" {
		args = append(args, "--multi-names", strconv.Itoa(cfg.MultiNames))
	}
	if !cfg.Contends() {
		return append(args, "--inflight", strconv.Itoa(cfg.Inflight))
	}
	args = append(args, "--hold", hold.String())
	if cfg.Scenario != config.KindLatch { // nobody has one
		args = append(args, fmt.Sprintf("--no-handoff=%v", cfg.NoHandOff))
	}
	if cfg.Witness != "" {
		args = append(args, "--witness", cfg.Witness)
	}
	return args
}

// loginArgs are how the servers let another process in. Passwords that are not in a file it inherits.
func loginArgs(cfg *config.Config) (args []string) {
	t := &cfg.TLS
	for _, a := range [][2]string{
		{"--user", cfg.User},
		{"--password-file", cfg.SecretFile},
		{"--master-name", cfg.MasterName},
		{"--sentinel-user", cfg.SentinelUser},
		{"--sentinel-password-file", cfg.SentinelSecretFile},
		{"--tls-ca", t.CA},
		{"--tls-cert", t.Cert},
		{"--tls-key", t.Key},
		{"--tls-server-name", t.ServerName},
	} {
		if a[1] != "" {
			args = append(args, a[0], a[1])
		}
	}
	for flag, on := range map[string]bool{"--tls": t.On, "--tls-insecure": t.Insecure, "--sentinel-no-tls": t.PlainSentinels} {
		if on {
			args = append(args, flag)
		}
	}
	return args
}

// victimAddrs are the servers for another process. Sentinels are named by a URL.
func victimAddrs(srv *topology.Server) []string {
	if srv.Sentinel == nil {
		return srv.Addrs
	}
	query := url.Values{"master_set": {redisproc.MasterName}, "addr": srv.Addrs[1:]}
	return []string{(&url.URL{Scheme: "redis", Host: srv.Addrs[0], RawQuery: query.Encode()}).String()}
}

// EndWithInput ends the process when standard input does. A victim has nothing to give back.
func EndWithInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(report.StatusInterrupted)
}
