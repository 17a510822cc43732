package resp

import (
	"strconv"

	"github.com/redis/rueidis"
)

// An outbox is the commands of a lane's round: bytes, where the lane writes them itself, else what the client takes.
type outbox struct {
	wire  *wire
	built []rueidis.Completed
	head  [3]string // scratch
}

// begin forgets the round before.
func (o *outbox) begin(w *wire) {
	o.wire, o.built = w, o.built[:0]
	if w.direct != nil {
		w.direct.begin()
	}
}

// len is how many commands there are.
func (o *outbox) len() int {
	if d := o.wire.direct; d != nil {
		return d.asked
	}
	return len(o.built)
}

// add adds a command that is rare.
func (o *outbox) add(c rueidis.Completed) {
	if d := o.wire.direct; d != nil {
		d.add(c.Commands())
		return
	}
	o.built = append(o.built, c)
}

func (o *outbox) addAll(cs []rueidis.Completed) {
	for _, c := range cs {
		o.add(c)
	}
}

// call adds the call of a script.
func (o *outbox) call(s *script, keys, args []string) {
	if d := o.wire.direct; d != nil {
		o.head = [...]string{"EVALSHA", s.sha, strconv.Itoa(len(keys))}
		d.add(o.head[:], keys, args)
		return
	}
	sha := o.wire.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys)))
	if len(keys) == 0 {
		o.built = append(o.built, sha.Arg(args...).Build())
		return
	}
	o.built = append(o.built, sha.Key(keys...).Arg(args...).Build())
}
