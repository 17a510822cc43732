package slot

import "strings"

// GroupValue is how many characters the name of a value of a group has: a hash of 128 bits in Base64, without the
// padding.
const GroupValue = 22

// groupCut stands between a group and its values where both are one text.
const groupCut = "\x00"

// GroupOf returns a text for some values of a group, whose names are put one behind the other. It is the key of no
// object: commands are about the group. Behind an owner id instead of a group it is what one owner has.
func GroupOf(group, values string) string { return group + groupCut + values }

// CutGroup takes such a text apart.
func CutGroup(text string) (group, values string) {
	// The last one: a group may have such a byte, the names of values have none.
	at := strings.LastIndex(text, groupCut)
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// GroupChannel returns the channel on which releases of values of a group are published.
func GroupChannel(text string) string {
	group, _ := CutGroup(text)
	return LockChannel(group)
}
