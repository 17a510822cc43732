package engine

import (
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/resp"
)

// firstChild and nextChild go through the children of a root.
func (ent *entry) firstChild() *entry {
	if ent == nil || ent.children() == nil {
		return nil
	}
	return ent.children().first
}

func (ent *entry) nextChild() *entry { return ent.children().next }

// ensureChildren makes what a root needs to have children.
func (ent *entry) ensureChildren() *children {
	x := ent.ensureExtra()
	if x.children == nil {
		x.children = &children{}
	}
	return x.children
}

// newParent makes an entry that is a child, or is known to get some: in one piece.
func newParent(e *Engine, key string, hash uint64, slot uint16) *entry {
	s := &struct {
		entry
		entryExtra
		children
	}{}
	s.entryExtra.children = &s.children
	s.entry = entry{eng: e, key: key, hash: hash, slot: slot, extra: &s.entryExtra}
	return &s.entry
}

// newChild hangs a child on a root.
func (ent *entry) newChild() *entry {
	all := ent.ensureChildren()
	child := newParent(ent.eng, ent.key, ent.hash, ent.slot)
	child.wide = ent.wide
	child.children().root = ent
	child.Under(&ent.Queue)
	ent.attach(child, all.last)
	return child
}

// attach hangs a child on a root, behind another, or (nil) before all.
func (ent *entry) attach(child, behind *entry) {
	s, all := child.children(), ent.children()
	s.prev = behind
	if behind == nil {
		s.next, all.first = all.first, child
	} else {
		s.next, behind.children().next = behind.children().next, child
	}
	if s.next == nil {
		all.last = child
	} else {
		s.next.children().prev = child
	}
}

// standsInLine notes since when a child stands in a fair lock's queue on the server; 0: that is not known, or not any
// more. Those of whom it is known stand here in the order in which they stand there. Who has lost its place, or came
// there in another order than it asked in, is moved, which it reports.
func (ent *entry) standsInLine(since int64) (moved bool) {
	s, all := ent.children(), ent.root().children()
	if since == s.since {
		return false
	}
	if s.since = since; since == 0 {
		all.forget(ent)
		return true
	}
	front := all.tail // the last of those in front of it
	for front != nil && (front == ent || front.children().since > since) {
		front = front.inLine()
	}
	if ent.inLine() != front {
		ent.moveBehind(front)
		moved = true
	}
	if front == nil {
		all.head = ent
	}
	// One whose place is gone may have come when another one did: the server has the clock of a while ago.
	if all.tail == nil || all.tail.children().since <= since {
		all.tail = ent
	}
	return moved
}

// inLine is the next one in front of a child of which it is known since when it stands in the queue.
func (ent *entry) inLine() *entry {
	at := ent.children().prev
	for at != nil && at.children().since == 0 {
		at = at.children().prev
	}
	return at
}

// moveBehind moves a child: behind another, or (nil) before the first of those that stand in the queue.
func (ent *entry) moveBehind(front *entry) {
	root := ent.root()
	ent.detach()
	if front == nil {
		front = root.children().head.children().prev
	}
	root.attach(ent, front)
}

// forget takes a child out of those of whom it is known since when they stand in the queue.
func (all *children) forget(ent *entry) {
	if all.head == ent {
		all.head = ent.nextChild()
		for all.head != nil && all.head.children().since == 0 {
			all.head = all.head.nextChild()
		}
	}
	if all.tail == ent {
		all.tail = ent.inLine()
	}
}

// detach takes a child off its root.
func (ent *entry) detach() {
	s, all := ent.children(), ent.children().root.children()
	all.forget(ent)
	if s.prev == nil {
		all.first = s.next
	} else {
		s.prev.children().next = s.next
	}
	if s.next == nil {
		all.last = s.prev
	} else {
		s.next.children().prev = s.prev
	}
}

// withChildren goes through a root and its children; nil has none. A child may leave while it is yielded.
func (ent *entry) withChildren(yield func(*entry) bool) {
	if ent == nil || !yield(ent) {
		return
	}
	for child := ent.firstChild(); child != nil; {
		next := child.nextChild()
		if !yield(child) {
			return
		}
		child = next
	}
}

// entries goes through everything that hangs on the shard, children included.
func (sh *shard) entries(yield func(*entry) bool) {
	for root := range sh.names.all {
		for ent := range root.withChildren {
			if !yield(ent) {
				return
			}
		}
	}
}

// entryOf is where an op waits.
func (sc *section) entryOf(op *acquireOp) *entry {
	if w := op.watch; w != nil && w.at != nil {
		return w.at
	}
	if at := op.att.ent; at != nil && at.root() != at {
		return at
	}
	return sc.sh.names.get(op.lock.hash, op.lock.key)
}

// moveTo makes an op wait in a child from now on, or (nil) at the root of its name. Its attempt stays where
// it is on its way.
func (op *acquireOp) moveTo(child *entry) {
	switch at := op.att.ent; {
	case at == nil || at.Attempt() != &op.att:
		op.att.ent = child
		if op.watch != nil {
			op.watch.at = nil
		}
	case at == child:
	default:
		if op.watch == nil {
			op.watch = &watching{}
		}
		op.watch.at = child
	}
}

// advanceAll goes on with an entry, and with the name it hangs on.
func (sc *section) advanceAll(ent *entry) {
	sc.advance(ent)
	if root := ent.root(); root != ent {
		sc.advance(root)
		sc.fairListen(root)
	}
}

// advanceChildren goes on with all children of a name.
func (sc *section) advanceChildren(root *entry) {
	for at := range root.withChildren {
		sc.advance(at)
	}
}

// isOtherKind reports whether what this engine holds under the name is another kind of lock than is wanted,
// so that asking would only be refused. What is over by now stands in nobody's way, though the watchdog has not said
// so, or the holder is not told yet.
func (ent *entry) isOtherKind(want resp.Family, now clock.Instant) bool {
	stands := func(at *entry) bool {
		h := at.standing()
		return h != nil && otherKind(h.Family, want) && now.Before(h.Deadline())
	}
	child := ent.firstChild()
	return stands(ent) || child != nil && stands(child)
}

// acks reports whether who waits in a child asks for replicas.
func (ent *entry) acks() bool { return ent.head().set.Ack != nil }
