package twin

import (
	"slices"
	"strings"
)

// Type says what a key holds.
type Type uint8

// The types.
const (
	TypeString Type = iota + 1
	TypeHash
	TypeList
	TypeZSet
)

// String names the type as TYPE does.
func (t Type) String() string {
	return [...]string{"none", "string", "hash", "list", "zset"}[t]
}

// A Field is one field of a hash.
type Field struct{ Name, Value string }

// A Member is one member of a sorted set.
type Member struct {
	Name  string
	Score float64
}

// A value is what a key holds. The fields of a hash stand in the order in which they came, as Redis keeps small ones.
type value struct {
	kind    Type
	expires int64 // ms since 1970; 0: never
	text    string
	hash    []Field
	list    []string
	zset    []Member // by score, then by name
}

func (v *value) clone() *value {
	c := *v
	c.hash, c.list, c.zset = slices.Clone(v.hash), slices.Clone(v.list), slices.Clone(v.zset)
	return &c
}

// empty reports whether nothing is left: such a key is not kept.
func (v *value) empty() bool {
	return v.kind != TypeString && len(v.hash)+len(v.list)+len(v.zset) == 0
}

// field returns where a field stands; -1: nowhere.
func (v *value) field(name string) int {
	for i := range v.hash {
		if v.hash[i].Name == name {
			return i
		}
	}
	return -1
}

// member returns where a member stands; -1: nowhere.
func (v *value) member(name string) int {
	for i := range v.zset {
		if v.zset[i].Name == name {
			return i
		}
	}
	return -1
}

// place puts a member where its score belongs.
func (v *value) place(m Member) {
	at, _ := slices.BinarySearchFunc(v.zset, m, func(a, b Member) int {
		switch {
		case a.Score < b.Score:
			return -1
		case a.Score > b.Score:
			return 1
		default:
			return strings.Compare(a.Name, b.Name)
		}
	})
	v.zset = slices.Insert(v.zset, at, m)
}

// An Entry is a key and what it holds, for who looks at a keyspace from outside.
type Entry struct {
	Key  string
	Kind Type
	TTL  int64 // ms; -1: it has no expiry
	Text string
	Hash []Field
	List []string
	ZSet []Member
}

// find returns what a key holds; nil: nothing. A key whose time is over is taken out; at its last ms it is still there.
func (s *Server) find(key string) *value {
	v := s.keys[key]
	if v != nil && v.expires != 0 && s.now > v.expires {
		delete(s.keys, key)
		return nil
	}
	return v
}

// get returns what a key holds if that is of this type; nil and true: nothing; nil and false: another type.
func (s *Server) get(key string, kind Type) (*value, bool) {
	v := s.find(key)
	if v == nil {
		return nil, true
	}
	if v.kind != kind {
		return nil, false
	}
	return v, true
}

// open returns what a key holds, an empty value of this type if that is nothing; nil: another type.
func (s *Server) open(key string, kind Type) *value {
	v := s.find(key)
	if v == nil {
		v = &value{kind: kind}
		s.put(key, v)
	}
	if v.kind != kind {
		return nil
	}
	return v
}

func (s *Server) put(key string, v *value) {
	s.keys[key] = v
	if len(s.keys) > s.sweepAt {
		s.Sweep()
	}
}

// drop takes a key out that has become empty.
func (s *Server) drop(key string, v *value) {
	if v.empty() {
		delete(s.keys, key)
	}
}

// Sweep forgets keys whose time is over. It changes nothing that can be seen.
func (s *Server) Sweep() {
	for key, v := range s.keys {
		if v.expires != 0 && s.now > v.expires {
			delete(s.keys, key)
		}
	}
	s.sweepAt = max(1024, 2*len(s.keys))
}

// Keys lists what is there, by key. What it holds is a copy.
func (s *Server) Keys() []Entry {
	s.tick()
	out := make([]Entry, 0, len(s.keys))
	for key := range s.keys {
		if v := s.find(key); v != nil {
			c := v.clone()
			out = append(out, Entry{Key: key, Kind: c.kind, TTL: s.left(c), Text: c.text, Hash: c.hash, List: c.list, ZSet: c.zset})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// left is what PTTL answers for a key that is there.
func (s *Server) left(v *value) int64 {
	if v.expires == 0 {
		return -1
	}
	left := max(0, v.expires-s.now)
	if s.granule > 0 {
		left = (left + s.granule - 1) / s.granule * s.granule
	}
	return left
}
