package slot

import "strings"

// Count is the number of slots of a Redis Cluster.
const Count = 16384

// Of returns the cluster slot of key: CRC16 of its hashed part, modulo [Count].
//
// Blocks: never. Allocates: never.
// Source: Redis Cluster specification, "Key distribution model".
func Of(key string) uint16 {
	return CRC16(hashed(key)) % Count
}

// hashed returns the part of key that decides its slot: the text between the
// first '{' and the first '}' after it, or the whole key where there is no such
// pair or nothing in between.
//
// Source: Redis Cluster specification, "Hash tags".
func hashed(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	length := strings.IndexByte(key[open+1:], '}')
	// "{}" is no tag, and a brace that is never closed is none either.
	if length <= 0 {
		return key
	}
	return key[open+1 : open+1+length]
}

// CRC16 returns the CRC16/XMODEM checksum of s: polynomial 0x1021, initial value
// 0, nothing reflected. CRC16("123456789") is 0x31C3.
//
// Blocks: never. Allocates: never.
func CRC16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}
