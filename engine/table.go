package engine

// A table finds entries by the hash that every operation carries anyway: chained buckets, linked
// through the entries themselves. It allocates only to grow, and gives memory back when most of it
// is empty, so that a million names used once leave nothing behind.
type table struct {
	buckets []*entry // a power of two
	n       int
}

// leastBuckets keeps small tables from growing and shrinking all the time.
const leastBuckets = 16

func (t *table) bucket(hash uint64) *(*entry) {
	// The low bits chose the shard, higher ones the lane.
	return &t.buckets[(hash>>8)&uint64(len(t.buckets)-1)]
}

// get returns the entry of a key, nil if there is none.
func (t *table) get(hash uint64, key string) *entry {
	if t.n == 0 {
		return nil
	}
	for ent := *t.bucket(hash); ent != nil; ent = ent.chain {
		if ent.hash == hash && ent.key == key {
			return ent
		}
	}
	return nil
}

// put adds an entry whose key is not in the table.
func (t *table) put(ent *entry) {
	if t.n >= len(t.buckets) {
		t.resize(max(2*len(t.buckets), leastBuckets))
	}
	t.n++
	b := t.bucket(ent.hash)
	ent.chain = *b
	*b = ent
}

// remove takes an entry out; nothing happens if it is not in.
func (t *table) remove(ent *entry) {
	if t.n == 0 {
		return
	}
	for b := t.bucket(ent.hash); *b != nil; b = &(*b).chain {
		if *b == ent {
			*b = ent.chain
			ent.chain = nil
			t.n--
			break
		}
	}
	if len(t.buckets) > leastBuckets && t.n < len(t.buckets)/8 {
		t.resize(len(t.buckets) / 4)
	}
}

func (t *table) resize(size int) {
	old := t.buckets
	t.buckets = make([]*entry, max(size, leastBuckets))
	for _, ent := range old {
		for ent != nil {
			next := ent.chain
			b := t.bucket(ent.hash)
			ent.chain = *b
			*b = ent
			ent = next
		}
	}
}

// all yields every entry. The table must not change meanwhile.
func (t *table) all(yield func(*entry) bool) {
	for i := range t.buckets {
		for ent := t.buckets[i]; ent != nil; ent = ent.chain {
			if !yield(ent) {
				return
			}
		}
	}
}
