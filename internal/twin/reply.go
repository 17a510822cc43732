package twin

import (
	"strconv"
	"strings"
)

// Kind says what a Reply is.
type Kind uint8

// The kinds of Reply.
const (
	Nil    Kind = iota // no value; false in Lua
	Int                // Reply.Int
	Text               // Reply.Text, a bulk string
	Status             // Reply.Text, such as OK
	Error              // Reply.Text, such as WRONGTYPE ...
	Array              // Reply.Array
)

// A Reply is what a command answers.
type Reply struct {
	Kind  Kind
	Int   int64
	Text  string
	Array []Reply
}

// String renders a reply as redis-cli does when it writes to a pipe; errors have a minus in front.
func (r Reply) String() string {
	switch r.Kind {
	case Int:
		return strconv.FormatInt(r.Int, 10)
	case Text, Status:
		return r.Text
	case Error:
		return "-" + r.Text
	case Array:
		items := make([]string, len(r.Array))
		for i, item := range r.Array {
			items[i] = item.String()
		}
		return "[" + strings.Join(items, " ") + "]"
	default:
		return "(nil)"
	}
}

// is reports whether r is the number n.
func (r Reply) is(n int64) bool { return r.Kind == Int && r.Int == n }

// table reports whether Lua calls r a table.
func (r Reply) table() bool { return r.Kind >= Status }

// err reports whether r is an error: whether it has a field err in Lua.
func (r Reply) err() bool { return r.Kind == Error }

func number(n int64) Reply      { return Reply{Kind: Int, Int: n} }
func text(s string) Reply       { return Reply{Kind: Text, Text: s} }
func failure(s string) Reply    { return Reply{Kind: Error, Text: s} }
func array(items []Reply) Reply { return Reply{Kind: Array, Array: items} }

var (
	ok        = Reply{Kind: Status, Text: "OK"}
	wrongType = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	notNumber = failure("ERR value is not an integer or out of range")
	notFloat  = failure("ERR value is not a valid float")
	syntax    = failure("ERR syntax error")
)
