package faultproxy

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Mangle has every reply and push that comes from now on changed by m before it is delivered; nil ends that.
func (p *Proxy) Mangle(m *Mangler) { p.mangler.Store(m) }

// A Mangler changes what a server says, by chance.
type Mangler struct {
	// Bytes: any byte may be changed, added or left out. Replies may then answer other commands than they seem to, and
	// say what is not so. Otherwise a reply is replaced by one that no server of ours gives to it, or by an error, or
	// is the last of its connection: whoever reads it can know that it is not to be believed.
	Bytes bool
	// Numbers: a number in a reply to a script becomes another one. It stays a reply of the script, and is a lie.
	Numbers bool

	mu      sync.Mutex
	rng     *rand.Rand
	rate    float64
	changed atomic.Int64
}

// NewMangler makes one that changes replies with this probability.
func NewMangler(seed uint64, rate float64) *Mangler {
	return &Mangler{rng: rand.New(rand.NewPCG(seed, 0)), rate: rate} //nolint:gosec // repeatable
}

// Changed counts what it has changed.
func (m *Mangler) Changed() int64 { return m.changed.Load() }

// replaced is what an EVALSHA is not answered with by any server of ours, or with an error. Each is one reply. None is a
// list of a time and a number: that could be believed.
var replaced = []string{
	"_\r\n", "+OK\r\n", ":1\r\n", ":-9223372036854775808\r\n", "#t\r\n", ",1.5\r\n", "(123456789012345678901234567890\r\n",
	"$-1\r\n", "$0\r\n\r\n", "$3\r\nabc\r\n", "*-1\r\n", "*0\r\n", "%0\r\n", "%1\r\n+a\r\n+b\r\n", "=7\r\ntxt:abc\r\n",
	"*1\r\n_\r\n", "*1\r\n+x\r\n", "*1\r\n*1\r\n:1\r\n", "*2\r\n+x\r\n+y\r\n", "*2\r\n*0\r\n*0\r\n", "*2\r\n_\r\n_\r\n",
	"*3\r\n:1\r\n:1\r\n*0\r\n", "*5\r\n:1\r\n:0\r\n:1\r\n:1\r\n:1\r\n", "*6\r\n:1\r\n:0\r\n:1\r\n:500\r\n:1\r\n:500\r\n",
	"*4\r\n:1\r\n:9223372036854775807\r\n:1\r\n:-1\r\n", "*4\r\n:1\r\n:0\r\n:9223372036854775807\r\n:5\r\n",
	"-NOSCRIPT x\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-MOVED\r\n", "-MOVED 99999 x\r\n", "-ASK 5 :1\r\n", "-ASK -1 a:b\r\n", "-NOPERM x\r\n",
	"-ERR script: x\r\n", "-UNBLOCKED\r\n", "-\r\n", "-LOADING\r\n", "-BUSY\r\n", "-OOM x\r\n", "-TRYAGAIN\r\n", "-CLUSTERDOWN\r\n",
	"-ERR \x1b[2Jx\r\n", "!5\r\nERR x\r\n",
}

// refused ends a connection: what comes behind it would be the answer to something else.
var refused = []string{
	"$-2\r\n", "*-2\r\n", "%-1\r\n", ">-1\r\n", "$9223372036854775807\r\n", "*2147483647\r\n", "*1000000\r\n", "$?\r\n", "*?\r\n",
	"hello\r\n", "\r\n", ":x\r\n", ">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "*1\r\n>1\r\n+x\r\n",
}

// change returns what is to be delivered instead of a reply or a push, and whether it is the last.
func (m *Mangler) change(raw []byte, push bool) (_ []byte, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rng.Float64() >= m.rate {
		return raw, false
	}
	m.changed.Add(1)
	switch {
	case m.Bytes:
		return m.bytes(raw), false
	case m.Numbers:
		return m.number(raw), false
	}
	pick := func(of []string) []byte { return []byte(of[m.rng.IntN(len(of))]) }
	switch n := m.rng.IntN(10); {
	case n == 0:
		return bytes.Clone(raw[:m.rng.IntN(len(raw))]), true
	case n == 1:
		return bytes.Repeat(pick([]string{"*1\r\n", "+aaaaaaaa", "|1\r\n+a\r\n+b\r\n", "*2\r\n"}), 1<<17), true
	case n == 2:
		return pick(refused), true
	case push:
		return raw, false
	default:
		return pick(replaced), false
	}
}

// bytes changes, adds and leaves out some.
func (m *Mangler) bytes(raw []byte) []byte {
	b := bytes.Clone(raw)
	for range 1 + m.rng.IntN(3) {
		at := m.rng.IntN(len(b) + 1)
		switch n := m.rng.IntN(6); {
		case n == 0: // whole lines again, as replies too many
			b = append(b, b[at:]...)
		case n == 1 || at == len(b):
			b = append(b[:at:at], append([]byte{m.any()}, b[at:]...)...)
		case n == 2:
			b = append(b[:at:at], b[at+1:]...)
		default:
			b[at] = m.any()
		}
	}
	return b
}

// lies are numbers that mean something somewhere: codes, counts, and what is too large for a time.
var lies = []string{
	"-3", "-2", "-1", "0", "1", "2", "3", "-4", "-10", "-11", "-17", "128", "1000000", "-9223372036854775808", "9223372036854775807", "9007199254740993",
}

// number changes one number of a reply that has some; seldom the first, which is the time.
func (m *Mangler) number(raw []byte) []byte {
	lines := bytes.SplitAfter(raw, []byte("\n"))
	var numbers []int
	for i, line := range lines {
		if len(line) > 0 && line[0] == ':' {
			numbers = append(numbers, i)
		}
	}
	if len(numbers) == 0 {
		return raw
	}
	if len(numbers) > 1 && m.rng.IntN(8) > 0 {
		numbers = numbers[1:]
	}
	lines[numbers[m.rng.IntN(len(numbers))]] = []byte(":" + lies[m.rng.IntN(len(lies))] + "\r\n")
	return bytes.Join(lines, nil)
}

// any is a byte that means something, mostly.
func (m *Mangler) any() byte {
	const meant = "+-:$*_,#!=(~%>|\r\n0123456789?.;"
	if m.rng.IntN(8) == 0 {
		return byte(m.rng.IntN(256))
	}
	return meant[m.rng.IntN(len(meant))]
}
