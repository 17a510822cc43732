package slot

import (
	"errors"
	"strconv"
	"unicode/utf8"
)

// ErrName is what errors.Is finds in every refusal of a name. Returned when a
// name cannot name an object of its kind; nothing has left the process.
var ErrName = errors.New("holdfast: name refused")

// NameError says which name was refused and why. Returned when [Check] refuses;
// errors.Is(err, ErrName) holds.
type NameError struct {
	Name   string // as given, whatever its length
	Kind   Kind
	Reason string // a clause about the name, such as "it is empty"
}

// Error returns the text of the refusal, with a long name cut short.
func (e *NameError) Error() string {
	return "holdfast: " + e.Kind.String() + " name " + quote(e.Name) + " refused: " + e.Reason
}

// Unwrap returns ErrName.
func (e *NameError) Unwrap() error { return ErrName }

// quotedMax bounds how many bytes of a name an error text shows.
const quotedMax = 64

// quote returns s in quotes, cut after quotedMax bytes at the end of a character.
func quote(s string) string {
	if len(s) <= quotedMax {
		return strconv.Quote(s)
	}
	// Not within a character: Quote would show its bytes.
	end := quotedMax
	for end > quotedMax-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strconv.Quote(s[:end]) + "... (" + strconv.Itoa(len(s)) + " bytes)"
}
