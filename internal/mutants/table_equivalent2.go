package main

import "maps"

// equivalentsElsewhere are those of engine and resp.
func equivalentsElsewhere() map[string]string {
	all := equivalentMachines()
	maps.Copy(all, equivalentResp())
	return all
}

func equivalentMachines() map[string]string {
	const (
		machine = "engine/internal/lockstate/"
		wish    = "engine/wish.go: "
	)
	return map[string]string{
		machine + "indeterminate.go: number: return d.Until != 0 && sentAt.Before(d.Until) -> return d.Until != 1 && sentAt.Before(d.Until)": "no instant is before 0, and no doubt ends in the first nanosecond",
		machine + "queue.go: number: if kind == WakeMessage && pause > 0 { -> if kind == WakeMessage && pause > 1 {":                         "a pause is 0, or a quarter of a millisecond at least",
		machine + "terms.go: boundary: if d >= s.Most { -> if d > s.Most {":                                                                  "twice the longest pause is the longest pause",
		machine + "changes.go: number: n.lowers.Unanswered(sentAt, limit, 0) -> n.lowers.Unanswered(sentAt, limit, 1)":                       "the lease is set in the next line",
		wish + "boundary: if w.until != 0 && (c.until == 0 || w.until < c.until) { -> " +
			"if w.until != 0 && (c.until == 0 || w.until <= c.until) {": "of two ends at one instant either is the first",
	}
}

func equivalentResp() map[string]string {
	return map[string]string{
		`resp/answers.go: boundary: return CodeBusy, lifeMs(v), v > -3 -> return CodeBusy, lifeMs(v), v >= -3`:                                                                          "-3 has a case before it",
		`resp/answers.go: arithmetic: fields := make([]string, 0, len(values)-1) -> fields := make([]string, 0, len(values)+1)`:                                                         "a slice grows where it has to",
		`resp/answers.go: number: fields := make([]string, 0, len(values)-1) -> fields := make([]string, 0, len(values)-0)`:                                                             "a slice grows where it has to",
		`resp/batch.go: factor: var space [64]byte -> var space [(64 * 2)]byte`:                                                                                                         "a slice grows where it has to",
		`resp/batch.go: factor: var space [64]byte -> var space [(64 / 2)]byte`:                                                                                                         "a slice grows where it has to",
		`resp/batch.go: number: return c.ops[0].Family.row().dumps -> return c.ops[1].Family.row().dumps`:                                                                               "the ops of a command are of one family, and there are two here",
		`resp/batch.go: number: end := start + 1 -> end := start + 0 (2)`:                                                                                                               "an op has the field that it has: the first step of the loop makes it the same",
		`resp/reply.go: arithmetic: if len(values) < head || (len(values)-head)%2 != 0 { -> if len(values) < head || (len(values)+head)%2 != 0 {`:                                       "odd and even are the same either way",
		`resp/reply.go: number: return s, 0, false -> return s, 1, false`:                                                                                                               "nobody reads a number that is none",
		`resp/guard.go: branch: if g.last.Load() == nil { -> if (g.last.Load() == nil) && false {`:                                                                                      "this only spares a write that is shared",
		`resp/guard.go: branch: if n <= 0 { -> if (n <= 0) && false {`:                                                                                                                  "of nothing there is nothing to look at",
		`resp/guard.go: boundary: if n <= 0 { -> if n < 0 {`:                                                                                                                            "of nothing there is nothing to look at",
		`resp/guard.go: number: next := uint64(0) -> next := uint64(1)`:                                                                                                                 "the first command is answered by then, and its number is not asked for again",
		`resp/guard_commands.go: branch: if s.left > 0 && s.left < s.size && s.first == argumentUnread { -> if (s.left > 0 && s.left < s.size && s.first == argumentUnread) && false {`: "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: boundary: if s.left > 0 && s.left < s.size && s.first == argumentUnread { -> if s.left >= 0 && s.left < s.size && s.first == argumentUnread {`:         "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: number: if s.left > 0 && s.left < s.size && s.first == argumentUnread { -> if s.left > 1 && s.left < s.size && s.first == argumentUnread {`:            "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: boundary: for s.left > 0 && i+5 <= len(b) && b[i] == '$' { -> for s.left >= 0 && i+5 <= len(b) && b[i] == '$' {`:                                       "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: number: for s.left > 0 && i+5 <= len(b) && b[i] == '$' { -> for s.left > 1 && i+5 <= len(b) && b[i] == '$' {`:                                          "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: factor: for s.left > 0 && i+5 <= len(b) && b[i] == '$' { -> for s.left > 0 && i+(5 * 2) <= len(b) && b[i] == '$' {`:                                    "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: boundary: for s.left > 0 && i+5 <= len(b) && b[i] == '$' { -> for s.left > 0 && i+5 < len(b) && b[i] == '$' {`:                                         "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: branch: if b[at] != '\r' || end > len(b) { -> if (b[at] != '\r' || end > len(b)) || true {`:                                                            "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: boundary: if b[at] != '\r' || end > len(b) { -> if b[at] != '\r' || end >= len(b) {`:                                                                   "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: number: n, at = 10*n+int(b[at]-'0'), at+1 -> n, at = 10*n+int(b[at]-'0'), at+0`:                                                                        "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: branch: if b[at] != '\r' { -> if (b[at] != '\r') && false {`:                                                                                           "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: branch: if b[at] != '\r' { -> if (b[at] != '\r') || true {`:                                                                                            "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: negation: if b[at] != '\r' { -> if b[at] == '\r' {`:                                                                                                    "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: arithmetic: n, at = 10*n+int(b[at]-'0'), at+1 -> n, at = 10*n+int(b[at]-'0'), at-1`:                                                                    "without it the same bytes are read one by one, with the same end",
		`resp/guard_commands.go: branch: if sent != before { -> if (sent != before) || true {`:                                                                                          "it stores what is there",
		`resp/guard_commands.go: boundary: if c >= 'a' && c <= 'z' { -> if c >= 'a' && c < 'z' {`:                                                                                       "no name of these has a Z",
		`resp/guard_commands.go: boundary: if s.reads && s.length < len(s.word) { -> if s.reads && s.length <= len(s.word) {`:                                                           "nothing is copied into what is full",
		`resp/guard_replies.go: boundary: if m.length < len(m.word) { -> if m.length <= len(m.word) {`:                                                                                  "nothing is copied into what is full",
		`resp/guard_replies.go: boundary: if s.length < len(s.line) { -> if s.length <= len(s.line) {`:                                                                                  "nothing is copied into what is full",
		`resp/guard_replies.go: branch: if refused = s.part(rest); refused != nil { -> if refused = s.part(rest); (refused != nil) || true {`:                                           "how much is good is asked for only where something is refused",
		`resp/guard_replies.go: number: if !ok || length > len(line) || n < -1 { -> if !ok || length > len(line) || n < -2 {`:                                                           "a negative length is refused where it is used, too, and a line that is not kept whole has more digits than a number",
		`resp/guard_replies.go: number: if len(digits) > 0 && digits[0] == '-' { -> if len(digits) > 1 && digits[0] == '-' {`:                                                           "a minus alone is no digit",
		`resp/guard_replies.go: number: return 0, false -> return 1, false`:                                                                                                             "nobody reads a number that is none",
		`resp/guard_replies.go: number: return 0, false -> return 1, false (2)`:                                                                                                         "nobody reads a number that is none",
		`resp/reply.go: number: return 0, false -> return 1, false`:                                                                                                                     "nobody reads a time that is none",
		`resp/guard_replies.go: branch: if s.depth == 0 { -> if (s.depth == 0) && false {`:                                                                                              "the end of the string sets it again, and nothing asks before",
		`resp/guard_replies.go: number: return s.aggregate(kind, int(min(n, mostElements+1))) -> return s.aggregate(kind, int(min(n, mostElements+2)))`:                                 "both are too many",
		`resp/guard_replies.go: factor: if s.text && before > 2 { -> if s.text && before > (2 / 2) {`:                                                                                   "of two bytes, the CR and the LF, none is text",
		`resp/guard_replies.go: boundary: if s.text && before > 2 { -> if s.text && before >= 2 {`:                                                                                      "of two bytes, the CR and the LF, none is text",
		`resp/guard_replies.go: branch: continue -> break (2)`:                                                                                                                          "nothing is complete with an attribute: what it says something of comes next",
		`resp/guard_replies.go: branch: if push || m.size > 0 && !s.asked.resp3.Load() { -> if (push || m.size > 0 && !s.asked.resp3.Load()) || true {`:                                 "of what is no push the word is used only where an array of RESP2 has one",
		`resp/guard_replies.go: boundary: if push || m.size > 0 && !s.asked.resp3.Load() { -> if push || m.size >= 0 && !s.asked.resp3.Load() {`:                                        "of what is no push the word is used only where an array of RESP2 has one",
		`resp/guard_replies.go: junction: if push || m.size > 0 && !s.asked.resp3.Load() { -> if push || m.size > 0 || !s.asked.resp3.Load() {`:                                         "of what is no push the word is used only where an array of RESP2 has one",
	}
}
