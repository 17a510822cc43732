package engine

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/minio/highwayhash"
)

// MaxGroupValues is how many values one GroupLock may name: a command works for each of them.
const MaxGroupValues = 1000

// GroupValues are the values of a GroupLock, as a Redisson client encodes them. What stands in Redis is a hash of the
// encoded bytes, so both sides have to agree on the codec: where they do not they never meet.
type GroupValues struct {
	names []string // what stands for each in Redis
	err   error
}

// KryoStrings are strings as Kryo5Codec encodes them, which is Redisson's default.
func KryoStrings(values ...string) GroupValues { return encodedBy(kryoString, values) }

// PlainStrings are strings as StringCodec encodes them: their UTF-8.
func PlainStrings(values ...string) GroupValues {
	return encodedBy(func(s string) []byte { return []byte(s) }, values)
}

func encodedBy(encode func(string) []byte, values []string) GroupValues {
	encoded := make([][]byte, len(values))
	for i, s := range values {
		if !utf8.ValidString(s) {
			return GroupValues{err: fmt.Errorf("%w: value %s of a group is not valid UTF-8", ErrName, quote(s))}
		}
		encoded[i] = encode(s)
	}
	return EncodedValues(encoded...)
}

// EncodedValues are values that the caller has encoded, whatever the codec: each is what the codec's value encoder
// makes of it.
func EncodedValues(values ...[]byte) GroupValues {
	if len(values) < 1 || len(values) > MaxGroupValues {
		return GroupValues{err: fmt.Errorf("%w: %d values of a group are not from 1 to %d",
			ErrName, len(values), MaxGroupValues)}
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = groupValue(v)
	}
	sorted := slices.Sorted(slices.Values(names))
	for i := range sorted[1:] {
		if sorted[i] == sorted[i+1] {
			twice := values[slices.Index(names, sorted[i])]
			return GroupValues{err: fmt.Errorf("%w: value %s of a group is named twice", ErrName, quote(string(twice)))}
		}
	}
	return GroupValues{names: names}
}

// sorted is all of them in one text that is the same in whatever order they were named.
func (v GroupValues) sorted() string { return strings.Join(slices.Sorted(slices.Values(v.names)), "") }

// groupValue is what stands for an encoded value in Redis: a hash of 128 bits in Base64 without its padding.
//
// Source: org.redisson.misc.Hash.hash128toBase64 of Redisson 4.7.0: HighwayHash under a key of its own, its two words
// in big-endian order.
func groupValue(encoded []byte) string {
	var key [highwayhash.Size]byte
	for i, word := range [...]uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95} {
		binary.LittleEndian.PutUint64(key[8*i:], word)
	}
	sum := highwayhash.Sum128(encoded, key[:])
	slices.Reverse(sum[:8])
	slices.Reverse(sum[8:])
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// What Kryo writes before a string: the number of the class String, as it is registered.
const kryoStringClass = 3

// Up to so many characters Kryo writes a string that is all ASCII without its length: the last byte has its high bit
// set. One of a single character has a length all the same.
const kryoASCIIMost = 32

// kryoString is what Kryo5Codec makes of a string.
//
// Source: com.esotericsoftware.kryo.io.Output.writeString of Kryo 5: otherwise the length plus one, in UTF-16 units,
// with a flag; then each unit in the UTF-8 of its own, so that two make one character of the higher planes.
func kryoString(s string) []byte {
	out := []byte{kryoStringClass}
	ascii := !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
	if ascii && 1 < len(s) && len(s) <= kryoASCIIMost {
		out = append(out, s...)
		out[len(out)-1] |= 0x80
		return out
	}
	units := utf16.Encode([]rune(s))
	out = appendKryoLength(out, len(units)+1)
	for _, unit := range units {
		switch {
		case unit < 0x80:
			out = append(out, byte(unit))
		case unit < 0x800:
			out = append(out, 0xC0|byte(unit>>6), 0x80|byte(unit&0x3F))
		default:
			out = append(out, 0xE0|byte(unit>>12), 0x80|byte(unit>>6&0x3F), 0x80|byte(unit&0x3F))
		}
	}
	return out
}

// appendKryoLength appends a number, seven bits a byte but six in the first, whose high bit is a flag: it is no ASCII.
func appendKryoLength(out []byte, n int) []byte {
	const flag, more, six = 0x80, 0x40, 0x3F
	if n <= six {
		return append(out, byte(n)|flag)
	}
	return binary.AppendUvarint(append(out, byte(n&six)|flag|more), uint64(n>>6)) //nolint:gosec // a length
}
