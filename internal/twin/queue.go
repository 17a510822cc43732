package twin

import "strconv"

// The last place that queue.lua lists, how many it asks for at once, and how many bytes of them it lists.
const queueLast, queuePage, queueBytes = 9999, 2, 1 << 20

// queue is the twin of queue.lua.
func (s *Server) queue(KEYS list) Reply {
	now := s.time()
	queue := KEYS.at(1)
	timeouts := "redisson_lock_timeout:" + queue[min(len("redisson_lock_queue:"), len(queue)):]
	out := []Reply{number(now)}
	bytes := 0
	for from := 0; from <= queueLast; from += queuePage {
		waiting := s.pcall("LRANGE", queue, strconv.Itoa(from), strconv.Itoa(from+queuePage-1))
		if waiting.err() {
			return waiting
		}
		for _, field := range waiting.Array {
			if bytes += len(field.Text); bytes > queueBytes {
				return array(out)
			}
			score := s.call("ZSCORE", timeouts, field.Text)
			if score.Kind == Nil {
				score = text("0")
			}
			out = append(out, field, score)
		}
		if len(waiting.Array) < queuePage {
			break
		}
	}
	return array(out)
}
