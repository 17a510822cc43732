package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// Info is what the server knows of a lock.
type Info struct {
	Locked bool
	// Mine: this engine holds it. OwnerID is then Lease.OwnerID of the holder.
	Mine bool
	// OwnerID is the field: "<uuid of the client>:<id of the hold or thread>".
	OwnerID string
	// Holds is how often the owner has taken it.
	Holds int
	// Remaining is the time until it expires by itself, a century at most; negative: it never does.
	Remaining time.Duration
	// Mode is "read" or "write" where a read-write lock is held. Seen through ReadLock, Locked says that
	// somebody reads, Holds how many read holds there are, and OwnerID is one of them, this engine's if it
	// has one; through WriteLock they are the writer's.
	Mode string
	// Fields is how many fields the hash has where those are more than an Inspect reads, 10,000 or a megabyte: then Mine
	// is false and OwnerID and Holds are not known. Else it is 0.
	Fields int
	// Waiters is how many acquires of this engine are waiting or on their way.
	Waiters int
}

// Inspect asks the server who holds the lock. Blocks: for one round trip, or until ctx ends; some 11 to 14 s where no
// server answers and ctx does not end.
// Errors: ErrWrongKind, ErrName, ErrClosed, *ServerError, ctx's own.
func (l *Lock) Inspect(ctx context.Context) (Info, error) { return l.InspectAsync(ctx).Await(ctx) }

// InspectAsync is Inspect as a future.
func (l *Lock) InspectAsync(ctx context.Context) *Future[Info] {
	op := &singleOp[Info]{eng: l.eng, name: l.Name(), repeat: true, read: l.readInfo}
	op.op = resp.Op{Kind: resp.OpInspect, Key: l.key, Hash: l.hash, Slot: l.slot}
	return single(ctx, l, op)
}

func (l *Lock) readInfo(r *resp.Result) (Info, error) {
	info := Info{Waiters: l.waiters()}
	if r.More > 0 {
		return l.readMany(info, r)
	}
	if len(r.Fields) == 0 {
		return info, nil
	}
	// The fields come in any order; "mode" is there only if the lock is a read-write lock.
	for i := 0; i+1 < len(r.Fields); i += 2 {
		if r.Fields[i] == "mode" {
			info.Mode = r.Fields[i+1]
		}
	}
	if traits(l.set.family).Halved() != (info.Mode != "") {
		info.Mode = ""
		return info, &nameError{l.Name(), ErrWrongKind}
	}
	if info.Mode != "" {
		return l.readShared(info, r)
	}
	holds, err := strconv.Atoi(r.Fields[1])
	if err != nil {
		return info, &nameError{l.Name(), ErrWrongKind}
	}
	info.Locked, info.OwnerID, info.Holds = true, r.Fields[0], holds
	info.Mine = resp.FieldOf(l.eng.id, info.OwnerID)
	info.Remaining = fromServerMs(r.Value)
	return info, nil
}

// readMany reads what is known of a hash that was not read. Only many readers have such a lock.
func (l *Lock) readMany(info Info, r *resp.Result) (Info, error) {
	if len(r.Fields) > 0 {
		info.Mode = r.Fields[0]
	}
	if !traits(l.set.family).Halved() || info.Mode == "" {
		info.Mode = ""
		return info, &nameError{l.Name(), ErrWrongKind}
	}
	info.Fields = int(r.More)
	if (info.Mode == resp.ModeWrite) == (traits(l.set.family).Mode == resp.ModeWrite) {
		info.Locked, info.Remaining = true, fromServerMs(r.Value)
	}
	return info, nil
}

// readShared reads what stands under the name of a read-write lock.
func (l *Lock) readShared(info Info, r *resp.Result) (Info, error) {
	for i := 0; i+1 < len(r.Fields); i += 2 {
		field := r.Fields[i]
		if field == "mode" || resp.ModeOf(field) != traits(l.set.family).Mode {
			continue
		}
		holds, err := strconv.Atoi(r.Fields[i+1])
		if err != nil {
			return info, &nameError{l.Name(), ErrWrongKind}
		}
		mine := resp.FieldOf(l.eng.id, field)
		if mine || !info.Locked {
			info.OwnerID = field
		}
		info.Locked, info.Mine, info.Holds = true, info.Mine || mine, info.Holds+holds
	}
	if !info.Locked {
		return info, nil
	}
	info.Remaining = fromServerMs(r.Value)
	return info, nil
}

func (l *Lock) waiters() int {
	sc := l.eng.enter(l.hash)
	defer sc.leave()
	n := 0
	for ent := range sc.sh.names.get(l.hash, l.key).withChildren {
		for range ent.ops {
			n++
		}
	}
	return n
}
