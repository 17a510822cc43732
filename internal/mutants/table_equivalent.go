package main

import "maps"

// equivalents are generated mutants that change nothing anybody could see, by their ids, with the reason.
func equivalents() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]string{
		equivalentFence(), equivalentHistory(), equivalentRenew(), equivalentSlot(), equivalentWheel(), equivalentWitness(),
		equivalentsElsewhere(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func equivalentFence() map[string]string {
	const file = "engine/fence/fence.go: "
	return map[string]string{
		file + "number: if seen > 0 { -> if seen > 1 {": "a token is 1 at least, so whoever is refused has seen 2",
		file + "branch: if value, err = fields[0].ToString(); err == nil { -> " +
			"if value, err = fields[0].ToString(); (err == nil) || true {": "a field of a hash is a text or nothing, which was asked for before",
	}
}

func equivalentHistory() map[string]string {
	const capped = "Overlaps cuts off what comes after the tenth: this only spares the time to make its text"
	return map[string]string{
		"internal/history/model.go: arguments: return slices.Equal(s.orphans, o.orphans) -> return slices.Equal(o.orphans, s.orphans)": "being equal is the same either way round",
		"internal/history/overlap.go: branch: if len(c.errs) > violationsMax { -> if (len(c.errs) > violationsMax) && false {":         capped,
		"internal/history/overlap.go: boundary: if len(c.errs) > violationsMax { -> if len(c.errs) >= violationsMax {":                 capped,
	}
}

func equivalentRenew() map[string]string {
	const hold, sender, times, dog = "renew/hold.go: ", "renew/sender.go: ", "renew/time.go: ", "renew/watchdog.go: "
	const same = "what is set is what it was"
	const change = "if next := nextRenewal(k.world, now, t.Lease); h.next == 0 || next "
	return map[string]string{
		hold + "boundary: if int64(to) <= old || int64(now) >= old { -> if int64(to) < old || int64(now) >= old {": same,
		dog + "boundary: if int64(to) >= h.deadline.Load() { -> if int64(to) > h.deadline.Load() {":                same,
		dog + "boundary: " + change + "< h.next { -> " + change + "<= h.next {":                                    same,
		dog + "branch: if !h.gone() { -> if (!h.gone()) || true {":                                                 "reschedule takes out again what is gone",
		sender + "branch: if len(due) == 0 { -> if (len(due) == 0) && false {":                                     "a sender that is woken with nothing to do waits on",
		sender + "number: limit := time.Duration(0) -> limit := time.Duration(1)":                                  "every attempt has a longer limit",
		sender + "call: clear(answers) -> _ = answers":                                                             "the next round writes over them: this lets their texts go sooner",
		times + "number: if left <= 0 { -> if left <= 1 {":                                                         "of one nanosecond nothing can be drawn but 0",
		times + "number: d = max(d, 0) -> d = max(d, 1)":                                                           "a lease is whole milliseconds: the nanosecond is cut off",
	}
}

func equivalentSlot() map[string]string {
	const file = "slot/check.go: "
	return map[string]string{
		file + `arguments: if !cluster || !strings.ContainsAny(name, "{}") { -> if !cluster || !strings.ContainsAny("{}", name) {`: "" +
			"that two texts have a character in common is the same either way round",
		file + "branch: continue -> break": "" +
			"one rule makes all derived names of a kind: where one of them leaves the slot, the first one does",
	}
}

func equivalentWheel() map[string]string {
	return map[string]string{
		"wheel/bucket.go: boundary: func (h bucketHeap[T]) Less(i, j int) bool { return h[i].ends < h[j].ends } -> func (h bucketHeap[T]) Less(i, j int) bool { return h[i].ends <= h[j].ends }":                                    "no two buckets that are open end at once",
		"wheel/set.go: branch: if s.last != nil && s.last.ends == ends { -> if (s.last != nil && s.last.ends == ends) && false {":                                                                                                   "the map has the same bucket: this only finds it sooner",
		"wheel/set.go: branch: if s.order[0] != b || s.running { // a running set arms the sources when it rests -> if (s.order[0] != b || s.running) && false { // a running set arms the sources when it rests":                   "an instant behind the one that is armed changes nothing, and a look too many does no harm",
		"wheel/set.go: junction: if s.order[0] != b || s.running { // a running set arms the sources when it rests -> if s.order[0] != b && s.running { // a running set arms the sources when it rests":                            "an instant behind the one that is armed changes nothing, and a look too many does no harm",
		"wheel/set.go: branch: if s.last == b { -> if (s.last == b) || true {":                                                                                                                                                      "the map has the same bucket: this only finds it sooner",
		"wheel/set.go: number: return 0, nil, false -> return 1, nil, false":                                                                                                                                                        "nobody asks for the time where nothing is due",
		"wheel/set.go: branch: if b.count > 0 { -> if (b.count > 0) || true { (3)":                                                                                                                                                  "an empty bucket is drained of nothing, and nobody is called with nothing",
		"wheel/set.go: boundary: if b.count > 0 { -> if b.count >= 0 { (3)":                                                                                                                                                         "an empty bucket is drained of nothing, and nobody is called with nothing",
		"wheel/timing.go: number: t := &timers{w: w, after: cfg.After, ring: make(chan struct{}, 1), ended: make(chan struct{})} -> t := &timers{w: w, after: cfg.After, ring: make(chan struct{}, 2), ended: make(chan struct{})}": "a second ring for one change: it aims once more at the same",
		"wheel/timing.go: call: defer patience.Stop() -> _ = patience.Stop":                                                                                                                                                         "a timer that nobody has any more is collected",
		"wheel/timing.go: call: defer patience.Stop() -> _ = patience.Stop (2)":                                                                                                                                                     "a timer that nobody has any more is collected",
	}
}

func equivalentWitness() map[string]string {
	const alive, witness, sum = "internal/witness/alive_linux.go: ", "internal/witness/witness.go: ", "internal/witness/summary.go: "
	const refused = "who is told an error does not ask whether somebody is in the run"
	const sign = "math.Inf asks for the sign only"
	const ratio, window = "f := Fairness{Min: math.Inf(", "), Ratio: 1, Window: time.Duration(end-first) * BinWidth}"
	return map[string]string{
		alive + "arguments: return lives(state, began, started) -> return lives(state, started, began)": "they are compared with each other, and each with 0",
		sum + "branch: continue -> break":                                       "places are taken in their order and none becomes free again: behind a free one there are only free ones",
		sum + "number: " + ratio + "1" + window + " -> " + ratio + "2" + window: sign,
		sum + "number: " + ratio + "1" + window + " -> " + ratio + "0" + window: sign,
		witness + `arguments: return nil, errors.Join(fmt.Errorf("%s: %w", path, err), w.unmap()) -> ` +
			`return nil, errors.Join(w.unmap(), fmt.Errorf("%s: %w", path, err))`: "what was mapped can be unmapped: there is one error",
		witness + "number: case w.header.begun.Load() > 0: -> case w.header.begun.Load() > 1:": "a run that lets nobody in any more has begun with two at least",
		witness + "answer: return false, ErrNotWitness -> return true, ErrNotWitness":          refused,
		witness + "answer: return false, ErrNotWitness -> return true, ErrNotWitness (2)":      refused,
		witness + "answer: return false, err -> return true, err (2)":                          refused,
		witness + `answer: return false, fmt.Errorf("%w of version %d: it has %d", ErrNotWitness, version, h.version) -> ` +
			`return true, fmt.Errorf("%w of version %d: it has %d", ErrNotWitness, version, h.version)`: refused,
		witness + `answer: return false, fmt.Errorf("%w: it has %d bytes for %d keys", ErrNotWitness, info.Size(), h.keys) -> ` +
			`return true, fmt.Errorf("%w: it has %d bytes for %d keys", ErrNotWitness, info.Size(), h.keys)`: refused,
		witness + "number: if err := f.Truncate(0); err != nil { -> if err := f.Truncate(1); err != nil {":                               "the first byte is written anew: it is the header's",
		witness + "number: mark = newMark(w.index, caller, w.generation.Add(1)) -> mark = newMark(w.index, caller, w.generation.Add(2))": "what counts is that no two are alike",
	}
}
