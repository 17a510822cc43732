package twin

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A permitsRun plays engines that use one semaphore. Each has one request on its way at a time, and asks until it knows what
// came of it. The server refuses what it likes, and copies of requests come as late as they like.
type permitsRun struct {
	testing.TB
	*rand.Rand
	twin   *Server
	copies [][]string // of requests that are settled
	log    []string
}

// A holder is an engine: what it holds, and the numbers of its last take and give.
type holder struct {
	name        string
	takes, held int64
	gives       int64
}

func (r *permitsRun) send(script scriptID, argv ...string) Reply {
	answer := r.twin.Do(append([]string{"EVALSHA", scriptShas[script], "1", "k"}, argv...))
	r.log = append(r.log, fmt.Sprint(scriptNames[script], argv, " -> ", answer))
	return answer
}

// refuse makes the server refuse something, or nothing.
func (r *permitsRun) refuse(may bool) {
	r.twin.Deny, r.twin.OOM, r.twin.Refuse = nil, false, ""
	if !may {
		return
	}
	switch r.IntN(6) {
	case 0:
		r.twin.OOM = true
	case 1:
		r.twin.Refuse = "READONLY"
	case 2, 3:
		no := map[string]bool{}
		for _, command := range []string{"HGET", "HSET", "HDEL", "PEXPIRE", "GET", "DECRBY", "INCRBY", "PUBLISH"} {
			no[command] = r.IntN(4) == 0
		}
		r.twin.Deny = func(command, _ string) string {
			if no[command] {
				return "NOPERM"
			}
			return ""
		}
	}
}

// until sends a request until it is not refused. Copies of it, and of others, may come now and later.
func (r *permitsRun) until(script scriptID, argv ...string) (v Reply, refused bool) {
	sent := append([]string{"EVALSHA", scriptShas[script], "1", "k"}, argv...)
	for try := 0; ; try++ {
		r.refuse(try < 10)
		answer := r.send(script, argv...)
		if len(answer.Array) == 0 || answer.Array[len(answer.Array)-1].err() {
			r.late()
			if refused = true; script == idSemaphore {
				return answer, true
			}
			continue
		}
		r.refuse(false)
		r.copies = append(r.copies, sent)
		return answer, refused
	}
}

// late plays a copy of a request that is settled. What it answers is heard by nobody.
func (r *permitsRun) late() {
	if len(r.copies) > 0 && r.IntN(2) == 0 {
		sent := r.copies[r.IntN(len(r.copies))]
		r.refuse(true)
		r.log = append(r.log, fmt.Sprint("late ", sent[4:], " -> ", r.twin.Do(sent)))
		r.refuse(false)
	}
}

func (r *permitsRun) take(h *holder) {
	h.takes++
	request := h.name + ":" + strconv.FormatInt(h.takes, 10)
	argv := []string{"0", request, "9999999999999", "0"}
	for range 1 + r.IntN(3) {
		argv = append(argv, strconv.Itoa(1+r.IntN(4)))
	}
	answer, unknown := r.until(idSemaphore, argv...)
	if !unknown && len(answer.Array) == 3 {
		if r.IntN(3) == 0 {
			require.Equal(r, answer.Array[2], r.send(idSemaphore, argv...).Array[2], "sent again")
		}
		h.held += answer.Array[2].Int
		return
	}
	// Refused, or there are too few. A copy may come later: it is given back before it comes.
	_, _ = r.until(idSemaphoreRelease, "PUBLISH", "0", "0", request, "1")
	r.copies = append(r.copies, append([]string{"EVALSHA", scriptShas[idSemaphore], "1", "k"}, argv...))
}

func (r *permitsRun) give(h *holder) {
	if h.held == 0 {
		return
	}
	h.gives++
	n := 1 + r.Int64N(h.held)
	_, _ = r.until(idSemaphoreRelease, "PUBLISH", "0", "0", fmt.Sprint(h.name, ":", h.gives, ":", n), "1")
	h.held -= n
}

// Whatever is refused, and however late a copy comes: permits are free or held, and they are as many as were set.
func TestPermitsAreNeitherMadeNorLost(t *testing.T) {
	const total = 12
	for seed := range uint64(300) {
		now := int64(1_700_000_000_000_000)
		r := &permitsRun{TB: t, Rand: rand.New(rand.NewPCG(seed, 1)), twin: New()}
		r.twin.Micros = func() int64 { return now }
		for id := idSemaphore; id <= idSemaphoreSet; id++ {
			r.twin.loaded[id] = true
		}
		r.twin.Do([]string{"SET", "k", strconv.Itoa(total)})
		engines := []*holder{{name: "e1"}, {name: "e2"}, {name: "e3"}}
		for range 60 {
			h := engines[r.IntN(len(engines))]
			if r.IntN(2) == 0 {
				r.take(h)
			} else {
				r.give(h)
			}
			r.late()
			now += r.Int64N(1_000_000)
			free, err := strconv.ParseInt(r.twin.Do([]string{"GET", "k"}).Text, 10, 64)
			require.NoError(t, err)
			sum := free
			for _, h := range engines {
				sum += h.held
			}
			require.EqualValues(t, total, sum, "seed %d: %d are free; %v", seed, free, r.log)
			require.GreaterOrEqual(t, free, int64(0))
		}
	}
}
