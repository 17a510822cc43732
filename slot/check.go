package slot

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxName is the longest name in bytes that [Check] accepts. Redis would take
	// 512 MiB; every command on a lock carries its name.
	MaxName = 1024

	// ReservedPrefix begins the names of Redisson's own keys and channels.
	ReservedPrefix = "redisson_"
)

// Check reports whether name can name an object of this kind: neither empty nor
// longer than MaxName, valid UTF-8 without control characters, not one of
// Redisson's own names, and no key that a lock of another name derives. In a cluster every key and channel that the
// kind derives from it must also hash to the slot of name.
//
// Units: bytes; at most MaxName. Blocks: never. Allocates: only to refuse, and in
// a cluster for names with braces.
// Errors: *NameError (errors.Is ErrName), saying which derived key would leave the slot.
// Source: Redis Cluster specification, "Hash tags".
func Check(name string, kind Kind, cluster bool) error {
	if kind == 0 || kind >= kindEnd {
		return refuse(name, kind, "the kind is unknown")
	}
	if reason := flaw(name); reason != "" {
		return refuse(name, kind, reason)
	}
	// Without a brace every derived name holds exactly {name}: the same slot.
	if !cluster || !strings.ContainsAny(name, "{}") {
		return nil
	}
	return checkSlots(name, kind)
}

// flaw returns what is wrong with name anywhere, or "".
func flaw(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > MaxName:
		return fmt.Sprintf("it has %d bytes, at most %d are allowed", len(name), MaxName)
	case !utf8.ValidString(name):
		return "it is not valid UTF-8"
	case strings.HasPrefix(name, ReservedPrefix):
		return "the prefix " + ReservedPrefix + " is reserved"
	case strings.IndexByte(name, '{') < 0: // what is derived otherwise has its name in braces
	case strings.HasSuffix(name, writerNote):
		return "the suffix " + writerNote + " is reserved for the notes of waiting writers"
	case strings.HasSuffix(name, fairHeard), strings.HasSuffix(name, fairAsked), strings.HasSuffix(name, fairNotes):
		return "the suffixes " + fairHeard + ", " + fairAsked + " and " + fairNotes +
			" are reserved for the queues of fair locks"
	case strings.HasSuffix(name, countedRequests):
		return "the suffix " + countedRequests + " is reserved for the requests of semaphores and latches"
	case strings.Contains(name, readHold):
		return "the infix " + readHold + " is reserved for the expiries of read holds"
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Sprintf("it has the control character %U at byte %d", r, i)
		}
	}
	return ""
}

// checkSlots refuses name if one of its derived names is not in its slot.
//
// A derived name must hash the very text that name hashes. Two texts may share a slot
// by chance, one pair in 16384, but most derived names end in a field or an id: with
// the next one the chance is gone.
func checkSlots(name string, kind Kind) error {
	for _, d := range derivedOf(name, kind) {
		if hashed(d.key) == hashed(name) {
			continue
		}
		got, want := Of(d.key), Of(name)
		if got == want {
			return refuse(name, kind, fmt.Sprintf("its %s %s is in slot %d of the name only by chance",
				d.what, quote(d.key), want))
		}
		return refuse(name, kind, fmt.Sprintf("its %s %s is in slot %d, the name in slot %d",
			d.what, quote(d.key), got, want))
	}
	return nil
}

func refuse(name string, kind Kind, reason string) error {
	return &NameError{Name: name, Kind: kind, Reason: reason}
}
