package twin

import "strings"

// The functions of fragments/marks.lua.

// marksOf reads a note as '^(%d+) (%d+)$' does.
func marksOf(note string) (opened, deleted float64) {
	first, second, _ := strings.Cut(note, " ")
	if first == "" || second == "" || !digits(first) || !digits(second) {
		return 0, 0
	}
	opened, _ = countOf(first)
	deleted, _ = countOf(second)
	return opened, deleted
}

func markAfter(opened, deleted float64, micros int64) float64 {
	return max(opened+1, deleted+1, float64(micros))
}

func marked(opened, deleted float64) string { return format0f(opened) + " " + format0f(deleted) }

// latchChannel is Redisson's: of a key with a hash tag it is in another slot than the key.
func latchChannel(key string) string { return "redisson_countdownlatch__channel__{" + key + "}" }

func latchChannelOf(key, tag string) string {
	if tag == "tagged" && strings.Contains(key, "{") {
		return "redisson_countdownlatch__channel__:" + key
	}
	return latchChannel(key)
}
