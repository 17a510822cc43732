package twin

// queueBytes is how much of a queue queue.lua lists.
const queueBytes = 1 << 20

// queue is the twin of queue.lua.
func (s *Server) queue(KEYS list) Reply {
	now := s.time()
	queue := KEYS.at(1)
	timeouts := "redisson_lock_timeout:" + queue[min(len("redisson_lock_queue:"), len(queue)):]
	waiting := s.pcall("LRANGE", queue, "0", "9999")
	if waiting.err() {
		return waiting
	}
	out := []Reply{number(now)}
	bytes := 0
	for _, field := range waiting.Array {
		if bytes += len(field.Text); bytes > queueBytes {
			break
		}
		score := s.call("ZSCORE", timeouts, field.Text)
		if score.Kind == Nil {
			score = text("0")
		}
		out = append(out, field, score)
	}
	return array(out)
}
