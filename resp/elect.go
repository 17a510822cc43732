package resp

import (
	"errors"
	"slices"
)

// choose asks the sentinels and finds the master that most of them name, and who they are.
func (f *follower) choose() finding {
	voices, known := f.voices(f.look())
	found := choose(voices, f.now, known)
	if found.err == nil {
		found.peers = agreedPeers(voices, f.named, known)
	}
	return found
}

// voices are the answers that count, and of how many they are. A sentinel may be asked twice, by the name that it was
// configured with and by the address that the others know: it has one vote. So those count that the others name, or the
// configured ones, where more of them answer: the addresses may be of a network that is not ours.
func (f *follower) voices(all []finding) (voices []finding, known int) {
	if len(f.named) == 0 {
		return all, len(f.known())
	}
	// Those that the others name, and the rest, which were configured.
	var named, others []finding
	answered, more := 0, 0 // of the named; and of the others, less those
	for _, one := range all {
		switch {
		case f.named[one.from]:
			named = append(named, one)
		default:
			others = append(others, one)
		}
		switch {
		case one.err != nil:
		case f.named[one.from]:
			answered++
			more--
		default:
			more++
		}
	}
	// Of how many: the smaller list must not lower what a majority is.
	known = max(len(f.named), len(f.seeds)) // one that lies may have kept the others from being named at first
	switch {
	case more > 0:
		return others, known
	case answered > 0:
		return named, known
	default:
		return all, known // why nobody answered
	}
}

// choose finds the master that sentinels name: the one that most of them do. A sentinel that lies can claim any
// epoch, so an epoch alone decides nothing; it is what tells an old configuration from a new one where most name the
// same.
//
// A master is left for another one
//
//   - that more than half of the known sentinels name, of an epoch that is not older. A failover needs the votes of
//     more than half of them, too, and they tell each other at once: it costs a fraction of a second to wait for
//     them.
//   - that more than half of the known name, of an older epoch, if no answer is as new as what is followed: somebody
//     has set them up anew.
//   - that more than half of those name that answer, if the master that is followed does not answer as one. After an
//     outage the others may be down with the old master, or be known by two names, or be gone for good. A sentinel that
//     lies wins this way only when the master and the other sentinels are all silent; while one of them answers, it
//     does not.
//
// At the beginning nothing is left: the one that most of those name that answer, and one that answers is enough. Of two
// that do not agree none is believed.
func choose(all []finding, now followed, known int) finding {
	// The votes, and how new the newest answer is.
	votes := make(map[string][]int64) // epochs, by the master that is named
	answered, newest := 0, int64(-1)
	for _, one := range all {
		if one.err == nil {
			answered++
			newest = max(newest, one.epoch)
			votes[one.addr] = append(votes[one.addr], one.epoch)
		}
	}
	if answered == 0 {
		return whyNone(all)
	}
	// What they are worth, by the rules above, in their order. What falls through is believed.
	best := elect(votes, now.addr)
	n := len(votes[best.addr])
	switch {
	case best.addr == "": // two have as many
		return finding{err: &ServerError{Class: ClassMasterDown, Text: errDisagree.Error(), cause: errDisagree}}
	case best.addr == now.addr && 2*n <= known: // too few to say how new it is
		best.epoch = now.epoch
	case now.addr == "", best.addr == now.addr:
	case 2*n > known && (best.epoch >= now.epoch || newest < now.epoch):
	case 2*n > known, 2*n > answered && best.epoch >= now.epoch:
		best.weak = true
	case best.epoch < now.epoch:
		return finding{err: errOlder}
	default:
		return finding{err: &ServerError{Class: ClassMasterDown, Text: errDisagree.Error(), cause: errDisagree}}
	}
	return best
}

// elect finds the master with the most votes, and the epoch that most of its voters reach; with equal votes the one
// that is followed, or none.
func elect(votes map[string][]int64, now string) (best finding) {
	most := 0
	for addr, epochs := range votes {
		switch n := len(epochs); {
		case n > most:
			best.addr, most = addr, n
		case n == most && addr == now:
			best.addr = addr
		case n == most && best.addr != now:
			best.addr = ""
		}
	}
	if epochs := votes[best.addr]; len(epochs) > 0 {
		slices.Sort(epochs)
		best.epoch = epochs[(len(epochs)-1)/2] // who claims more than the others does not raise it
	}
	return best
}

// agreedPeers lists the sentinels: those before, with whom more than half of the known name, each itself included, and
// without whom more than half of them leave out. So one that lies, and the silence of the others, change nothing. At
// the beginning those are listed that more than half name of who answered.
func agreedPeers(voices []finding, before map[string]bool, known int) []string {
	// How many name each. A set for each voice: naming somebody twice counts once.
	naming, answered := make(map[string]int), 0
	for _, one := range voices {
		if one.err != nil {
			continue
		}
		answered++
		seen := map[string]bool{one.from: true}
		for _, addr := range one.peers {
			seen[addr] = true
		}
		for addr := range seen {
			naming[addr]++
		}
	}
	if len(before) == 0 {
		known = answered
	}
	// Newcomers need a majority to come in, those before a majority to be left out.
	peers := make([]string, 0, len(before))
	for addr, n := range naming {
		if 2*n > known && !before[addr] {
			peers = append(peers, addr)
		}
	}
	for addr := range before {
		if 2*(answered-naming[addr]) <= known {
			peers = append(peers, addr)
		}
	}
	slices.Sort(peers)
	return peers
}

// whyNone says why no sentinel named a master: what one of them refuses says more than silence.
func whyNone(all []finding) finding {
	var failures []error
	var refused, silent finding
	for _, one := range all {
		switch {
		case errors.Is(one.err, ErrNoSuchMaster), refused.err == nil && !Dead(one.err):
			refused = finding{from: one.from, err: one.err}
		default:
			silent = finding{from: one.from, err: one.err}
			failures = append(failures, &Failure{one.from, one.err})
		}
	}
	// Only a server that is there refuses. A wrong name or password outweighs any timeout.
	switch {
	case refused.err != nil:
		return refused
	case len(failures) == 1:
		return silent
	default:
		cause := errors.Join(failures...)
		return finding{err: &ServerError{Class: ClassUnreachable, Text: "no sentinel answered", cause: cause}}
	}
}
