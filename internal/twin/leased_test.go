package twin

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is refused, however late a copy comes, and whatever expires: permits are free or leased, they are as many as
// were set, and who was told that it has some has them until its lease is over.
func TestLeasedPermitsAreNeitherMadeNorLost(t *testing.T) {
	const total = 9
	commands := []string{"GET", "ZADD", "ZREM", "ZSCORE", "ZRANGEBYSCORE", "INCRBY", "DECRBY", "PTTL", "PEXPIRE", "PUBLISH"}
	for seed := range uint64(400) {
		r, now := rand.New(rand.NewPCG(seed, 2)), int64(1_700_000_000_000_000)
		s := New()
		s.Micros = func() int64 { return now }
		for _, id := range []scriptID{idPermits, idPermitsRelease, idPermitsRenew} {
			s.loaded[id] = true
		}
		s.Do([]string{"SET", "k", strconv.Itoa(total)})
		if seed%2 == 0 {
			s.Do([]string{"PEXPIRE", "k", "90000000"})
		}
		held := map[string]int64{} // ids, and until when they are leased, in ms
		var copies, log [][]string
		send := func(sent []string) Reply {
			s.Deny, s.OOM, s.Refuse = nil, false, ""
			switch no := commands[r.IntN(len(commands))]; r.IntN(8) {
			case 0:
				s.OOM = true
			case 1:
				s.Refuse = "MISCONF"
			case 2, 3, 4:
				s.Deny = func(command, _ string) string {
					if command == no {
						return "NOPERM"
					}
					return ""
				}
			}
			answer := s.Do(sent)
			s.Deny, s.OOM, s.Refuse = nil, false, ""
			log = append(log, append(sent[4:], fmt.Sprint("-> ", answer)))
			return answer
		}
		for step := range 80 {
			ids := strings.Builder{}
			for i := range 1 + r.IntN(4) {
				fmt.Fprintf(&ids, "%04d:%011d", i, seed*1000+uint64(step))
			}
			lease := 1000 * (1 + r.Int64N(5))
			notAfter := strconv.FormatInt(now/1000+2000, 10)
			take := []string{"EVALSHA", scriptShas[idPermits], "1", "k", ms(lease), ids.String(), notAfter, "0", "PUBLISH"}
			var of string
			for id := range held {
				of = max(of, id)
			}
			switch {
			case len(copies) > 0 && r.IntN(4) == 0:
				send(copies[r.IntN(len(copies))])
			case of == "" || r.IntN(2) == 0:
				copies = append(copies, take)
				if answer := send(take); len(answer.Array) == 2 {
					held[ids.String()] = now/1000 + lease
				}
			case r.IntN(3) == 0:
				renewed := send([]string{"EVALSHA", scriptShas[idPermitsRenew], "1", "{k}:timeout", ms(lease), "1", "0", of})
				if len(renewed.Array) == 2 {
					held[of] = max(held[of], now/1000+lease)
				}
			default:
				send([]string{"EVALSHA", scriptShas[idPermitsRelease], "1", "k", "PUBLISH", "0", "0", of, "1"})
				delete(held, of)
			}
			now += r.Int64N(1_500_000)
			free, err := strconv.ParseInt(s.Do([]string{"GET", "k"}).Text, 10, 64)
			require.NoError(t, err)
			leased := s.Do([]string{"ZCARD", "{k}:timeout"}).Int
			require.EqualValues(t, total, free+leased, "seed %d: %d are free; %v", seed, free, log)
			require.GreaterOrEqual(t, free, int64(0))
			for ids, until := range held {
				if now/1000 >= until {
					delete(held, ids)
					continue
				}
				eachID(ids, func(id string) bool {
					at, _ := tonumber(s.Do([]string{"ZSCORE", "{k}:timeout", id}).Text)
					require.GreaterOrEqual(t, at, float64(until), "seed %d: %q; %v", seed, id, log)
					return true
				})
			}
		}
	}
}
