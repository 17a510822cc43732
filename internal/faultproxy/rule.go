package faultproxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Match chooses commands; cmd[0] is the name as the client wrote it. It is called
// with the proxy's lock held: it must return soon and not call the proxy.
type Match func(cmd []string) bool

// Any matches every command.
func Any([]string) bool { return true }

// Command returns a Match for commands by name, in any letter case.
func Command(names ...string) Match {
	return func(cmd []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, cmd[0]) })
	}
}

// Argument returns a Match for commands of that name with arg among their arguments:
// Argument("EVALSHA", "my-lock").
func Argument(name, arg string) Match {
	return func(cmd []string) bool {
		return strings.EqualFold(cmd[0], name) && slices.Contains(cmd[1:], arg)
	}
}

// Probability returns a choice of channels for [Proxy.DropMessages] that is true with
// probability p, the same sequence for the same seed.
func Probability(p float64, seed uint64) func(channel string) bool {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func(string) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64() < p
	}
}

// After says what becomes of a connection whose reply was dropped.
type After uint8

const (
	// Cut closes both sides once the server's reply has been read, and the replies
	// before it delivered: executed, answer lost.
	Cut After = iota
	// Hang keeps the connection open and delivers nothing on it any more, as order
	// forbids to deliver a later reply. Commands still reach the server.
	Hang
)

// action is what a rule does.
type action uint8

const (
	dropReply action = iota
	dropCommand
	dropMessage
	holdCommand
	refuseCommand
)

// signalsMax bounds the signals nobody has read yet; more are counted only.
const signalsMax = 1024

// Rule is a fault that has been ordered. Remove takes it back.
type Rule struct {
	proxy   *Proxy
	action  action
	match   Match
	channel func(string) bool // dropMessage only, instead of match
	after   After
	text    string // refuseCommand only: the error
	left    int    // how often it may still be chosen, negative: always; proxy.mu
	hits    atomic.Int64
	signals chan []string
}

// C signals each time the rule has struck, with the command it struck, or the kind
// and channel of the message. Of unread signals it keeps 1024.
func (r *Rule) C() <-chan []string { return r.signals }

// Hits returns how often the rule has struck.
func (r *Rule) Hits() int { return int(r.hits.Load()) }

// Remove takes the rule back. Commands it has chosen already stay chosen.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	r.proxy.rules = slices.DeleteFunc(r.proxy.rules, func(o *Rule) bool { return o == r })
}

// strike counts and signals that the rule has struck.
func (r *Rule) strike(what []string) {
	r.hits.Add(1)
	offer(r.signals, what)
	if r.action != holdCommand {
		offer(r.proxy.dropped, what)
	}
}

func offer(c chan []string, what []string) {
	select {
	case c <- what:
	default:
	}
}

// chooseLocked returns the first rule of that action that wants cmd, and spends one
// of its turns.
func (p *Proxy) chooseLocked(a action, cmd []string) *Rule {
	for _, r := range p.rules {
		if r.action == a && r.left != 0 && r.match(cmd) {
			r.left = max(r.left-1, -1)
			return r
		}
	}
	return nil
}

// chooseMessage returns the first rule that drops messages of channel.
func (p *Proxy) chooseMessage(channel string) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.action == dropMessage && r.channel(channel) {
			return r
		}
	}
	return nil
}

// add puts a rule behind those there are.
func (p *Proxy) add(r *Rule) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addLocked(r)
}

func (p *Proxy) addLocked(r *Rule) *Rule {
	r.proxy, r.signals = p, make(chan []string, signalsMax)
	p.rules = append(p.rules, r)
	return r
}

// DropReply lets n commands that match reach the server and swallows their replies;
// n < 0 means all. Afterwards the connection is cut, or hangs if after says so.
func (p *Proxy) DropReply(match Match, n int, after ...After) *Rule {
	r := &Rule{action: dropReply, match: match, left: n}
	if len(after) > 0 {
		r.after = after[0]
	}
	return p.add(r)
}

// DropCommand swallows n commands that match, before the server sees them, and closes
// the connection once earlier commands on it are answered; n < 0 means all.
func (p *Proxy) DropCommand(match Match, n int) *Rule {
	return p.add(&Rule{action: dropCommand, match: match, left: n})
}

// Refuse answers n commands that match with an error, and the server never sees them; n < 0 means all. The answer
// comes in its turn: the server is asked for it.
func (p *Proxy) Refuse(match Match, n int, text string) *Rule {
	return p.add(&Rule{action: refuseCommand, match: match, left: n, text: text})
}

// DropMessages swallows the pub/sub messages of the channels that match wants: kinds
// message, smessage and pmessage. Subscribing and everything else goes on.
func (p *Proxy) DropMessages(match func(channel string) bool) *Rule {
	return p.add(&Rule{action: dropMessage, channel: match})
}

// Hold keeps back n commands that match, and everything behind them on their
// connections, until [Proxy.ReleaseCommands]; n < 0 means all. A connection whose
// client closes meanwhile stays open towards the server.
func (p *Proxy) Hold(match Match, n int) *Rule {
	return p.add(&Rule{action: holdCommand, match: match, left: n})
}

// refusal is the command that is sent instead of one that is refused.
func (r *Rule) refusal() (cmd []string, raw []byte) {
	cmd = []string{"EVAL", "return redis.error_reply(ARGV[1])", "0", r.text}
	raw = fmt.Appendf(raw, "*%d\r\n", len(cmd))
	for _, arg := range cmd {
		raw = fmt.Appendf(raw, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return cmd, raw
}

// HoldCommands keeps back all commands; see [Proxy.Hold].
func (p *Proxy) HoldCommands() *Rule { return p.Hold(Any, -1) }

// ReleaseCommands removes all rules that hold, delivers what is held, whether its
// client still lives or not, and returns how many commands that is. [Proxy.Idle]
// waits until the server has answered them.
func (p *Proxy) ReleaseCommands() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.releaseLocked()
}

// HoldNext is [Proxy.ReleaseCommands] and then [Proxy.Hold], at one moment: nothing that follows from what is let
// go comes past the new rule.
func (p *Proxy) HoldNext(match Match, n int) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked()
	return p.addLocked(&Rule{action: holdCommand, match: match, left: n})
}

func (p *Proxy) releaseLocked() int {
	p.rules = slices.DeleteFunc(p.rules, func(r *Rule) bool { return r.action == holdCommand })
	n := 0
	for c := range p.conns {
		n += c.toServer.release()
	}
	return n
}
