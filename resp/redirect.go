package resp

import (
	"net"
	"strconv"
	"strings"
)

// maxHops bounds how often one sending of an op is passed on before its owner is told. It then comes
// back after a pause, with a table that was read anew.
const maxHops = 5

// redirect takes an op that a node of the cluster refused and sends it where it belongs. It says
// whether it did; if not, the op has its answer.
//
//	refused with              because                        goes
//	"non local key"           a batch: the slot is elsewhere to the owner the table names, if it has
//	                          or on its way                  changed; else here, alone, its key declared
//	the same, alone           a key beside it is not here    nowhere: TRYAGAIN, until all keys have moved
//	MOVED slot addr           the slot is elsewhere          to addr, and the table learns
//	ASK slot addr             the key may be there already   to addr, alone, behind ASKING; what needs keys
//	                                                         beside it first looks here for those (see
//	                                                         Op.otherKeys): TRYAGAIN while one is left
//	words we do not know      a batch: keys have to be        here, alone, its key declared; if that helps,
//	                          declared, perhaps               the node never gets a batch again
//	no connection             the node is gone               to the owner the table names, if it has changed
//	MOVED, ASK                to one stranger too many       nowhere: until the table names it
//
// A refusal is definite: nothing ran. So the op is as good as new, and its next answer the only one.
func (ns *Nodes) redirect(from *Node, op *Op, r *Result) bool {
	if r.Err.Class.suspicious() {
		ns.Suspect()
	}
	if op.hops >= maxHops {
		return false
	}
	target, alone, asking := ns.target(from, op, r.Err)
	if target == nil {
		// Alone, its own key was declared, and no node was named: so it is a key beside it that is not here.
		if r.Err.Class == ClassMoved && op.alone && redirection(r.Err.Text, "MOVED ", from.Addr()) == "" {
			r.Err = errSplit
		}
		return false
	}
	// Set before Submit: from then on the op is its lane's.
	op.hops++
	op.alone, op.asking = alone, asking
	ns.counts.redirects.Add(1)
	if err := target.Submit(op); err != nil {
		*r = Result{Code: CodeError, Err: AsServerError(err)}
		return false
	}
	return true
}

func (ns *Nodes) target(from *Node, op *Op, err *ServerError) (target *Node, alone, asking bool) {
	owner := ns.Owner(op.Slot)
	switch err.Class {
	case ClassMoved:
		addr := redirection(err.Text, "MOVED ", from.Addr())
		// An address is the newest there is. Without one the table decides, if it has changed since. Else the op goes
		// again, alone: then the refusal names a node.
		switch {
		case addr != "":
			return ns.learn(op.Slot, addr), false, false
		case owner != from:
			return owner, false, false
		case !op.alone:
			return from, true, false
		}
	case ClassAsk:
		// Alone, it looks for the keys beside it first: those must all be on one side.
		if !op.alone && len(op.otherKeys()) > 0 {
			return from, true, false
		}
		if addr := redirection(err.Text, "ASK ", from.Addr()); addr != "" {
			return ns.member(addr), true, true
		}
	case ClassOther:
		if op.among && !op.alone {
			return from, true, false
		}
	case ClassUnreachable:
		// The node may be gone for good. The table says so as soon as another one has its slots.
		if owner != from {
			return owner, false, false
		}
	}
	return nil, false, false
}

// redirection reads the address out of "MOVED slot host:port" or "ASK slot host:port". A node that
// does not know the host leaves it empty: it is the one of the node that answered.
func redirection(text, word, answered string) string {
	rest, ok := strings.CutPrefix(text, word)
	if !ok {
		return ""
	}
	slot, addr, _ := strings.Cut(rest, " ")
	if n, err := strconv.Atoi(slot); err != nil || n < 0 || n >= slotCount {
		return ""
	}
	addr, _, _ = strings.Cut(addr, " ")
	at := strings.LastIndexByte(addr, ':') // IPv6 comes without brackets
	if at < 0 {
		return ""
	}
	host, port := strings.Trim(addr[:at], "[]"), addr[at+1:]
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return ""
	}
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(answered)
	}
	if !plainHost(host) {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// suspicious reports whether an error of this class may mean that the table of slots is wrong.
func (c Class) suspicious() bool {
	switch c {
	case ClassUnknown, ClassUnreachable, ClassReadOnly, ClassMasterDown, ClassMoved, ClassAsk,
		ClassTryAgain, ClassClusterDown, ClassLoading:
		return true
	default:
		return false
	}
}
