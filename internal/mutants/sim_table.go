package main

import "strings"

// simulatedForms has what mutants are in the simulation, where that is not what they are elsewhere: those of scripts
// change the script's twin.
func simulatedForms() map[string][]edit {
	const (
		acquire, reacquire, release = "internal/twin/acquire.go", "internal/twin/reacquire.go", "internal/twin/release.go"
		renewal, force              = "internal/twin/renew.go", "internal/twin/force.go"
		read                        = "internal/twin/read.go"
		write, writeRelease         = "internal/twin/write.go", "internal/twin/writerelease.go"
		fairRelease                 = "internal/twin/fairrelease.go"
		alone                       = "internal/twin/one.go" // a lock that is taken or given back alone
	)
	return map[string][]edit{
		"release-anybodys": {
			{release, `v := s.pcall("HDEL", key, field)`, "_ = field\n\t\tv := s.pcall(\"DEL\", key)"},
			{alone, `v := s.pcall("HDEL", KEYS.at(1), ARGV.at(4))`, `v := s.pcall("DEL", KEYS.at(1))`},
		},
		"renew-anybodys": one(renewal, `v := r.pcall("HEXISTS", key, field)`, "_ = field\n\t\tv := r.pcall(\"EXISTS\", key)"),
		"count-by-steps": {
			{reacquire, `set := s.pcall("HSET", key, field, argument(target))`, `set := s.pcall("HINCRBY", key, field, "1")`},
			{reacquire, `changes := mode != "0" && (is != is2 || have != target)`, "changes := is != is2 || have <= target"},
		},
		"no-ttl": {
			{acquire, `ttl := a.pcall("PEXPIRE", key, a.lease)`, "ttl := number(1)"},
			{alone, `v = s.pcall("PEXPIRE", key, ARGV.at(1))`, "v = number(1)"},
		},
		"no-ttl-when-asked-again": one(reacquire, `ttl := s.pcall("PEXPIRE", key, lease)`, "ttl := number(1)"),
		"renewal-shortens":        one(renewal, `set := r.pcall("PEXPIRE", key, r.lease, "GT")`, `set := r.pcall("PEXPIRE", key, r.lease)`),
		"another-channel": {
			{release, `"redisson_lock__channel:" + tagged(key)`, `"redisson_lock_channel:" + tagged(key)`},
			{"resp/batch.go", "channel = slot.LockChannel(first.Key)", "channel = slot.SemaphoreChannel(first.Key)"},
		},
		"not-after-ignored": {
			{acquire, "if float64(now) > want(ARGV.at(3)) {", "if false {"},
			{alone, "if float64(now) > want(ARGV.at(3)) {", "if false {"},
		},
		"not-after-ignored-when-asked-again": one(reacquire, "if float64(now) > want(ARGV.at(3)) {", "if false {"),
		"force-without-not-after":            one(force, "if float64(now) > want(ARGV.at(5)) {", "if false {"),
		"mark-is-lowered":                    one(read, "if set.Kind == Int && set.less(r.wanted) {", "if set.Kind == Int {"),
		"write-copies-what-was-held":         one(write, "w.copying && made {", "w.copying && (made || v.Kind == Nil) {"),
		"read-copies-what-was-held":          one(read, "r.copying && made {", "r.copying && (made || v.Kind == Nil) {"),
		"note-over-another-type":             one(write, `if w.pcall("GET", note).table() {`, "if false {"),
		"no-note-keeps-readers-out":          one(read, ` || r.pcall("GET", note).Kind != Text {`, " {"),
		"no-note-is-deleted":                 one(writeRelease, "if noted.Kind == Text { // anything else is no note", "if true {"),
		"mark-over-another-type":             one(read, `"1", "PX", r.lease, "NX")`, `"1", "PX", r.lease)`),
		"passed-on-under-anothers-lease":     one("engine/release.go", "LeaseMs: child.Attempt().op.LeaseMs})\n\t\t}", "LeaseMs: 100})\n\t\t}"),
		"passed-on-to-anybody": {
			{fairRelease, `if lease, ok := f.heirs[strconv.Itoa(i)+" "+first.Text]; ok && `, "lease, ok := \"\", strconv.Itoa(i) == \"\"\n\t\tfor _, lease = range f.heirs {\n\t\t\tok = true\n\t\t}\n\t\tif ok && "},
		},
		"lowered-to-nothing":                one(reacquire, "if set.is(1) {", "if false {"),
		"lowers-under-readers":              one(reacquire, "} else if fields.Int-mode.Int > 1 {", "} else if false {"),
		"nothing-is-lowered-under-readers":  one(reacquire, "\t\tlease = most\n", "\t\tlease = max(most, left)\n"),
		"acquire-sets-the-count":            one(reacquire, `changes := mode != "0" && (is != is2 || have != target)`, "changes := is != is2 || have != target"),
		"downgrade-keeps-the-writers-lease": one(writeRelease, "!left.table() && most < float64(left.Int) {", "!left.table() && left.Int < 0 {"),
		"downgrade-cuts-readers":            one("internal/twin/readers.go", "for hold := count; hold >= 1; hold-- {", "for hold := min(count, 1); hold >= 1; hold-- {"),
		"release-needs-memory": {
			{release, `v := s.pcall("HDEL", key, field)`, "v := s.pcall(\"HINCRBY\", key, field, \"-1\")\n\t\tif v.is(0) {\n\t\t\tv = s.pcall(\"HDEL\", key, field)\n\t\t}"},
			{alone, `v := s.pcall("HDEL", KEYS.at(1), ARGV.at(4))`, "v := s.pcall(\"HINCRBY\", KEYS.at(1), ARGV.at(4), \"-1\")\n\tif v.is(0) {\n\t\tv = s.pcall(\"HDEL\", KEYS.at(1), ARGV.at(4))\n\t}"},
		},
		"stop-renewing-in-two-steps": {
			{"engine/lease.go", "func (ls *Lease) StopRenewing() {\n", "func (ls *Lease) StopRenewing() {\n\tactive := ls.state.Load() == leaseActive\n\tls.eng().world.Yield(\"StopRenewing: looked | stopped\")\n"},
			{"engine/lease.go", "if ls.state.Load() == leaseActive && ls.hold", "if active && ls.hold"},
		},
	}
}

// beyondTheSimulation says of mutants why the simulation cannot find them.
func beyondTheSimulation() map[string]string {
	const (
		moving  = "below the seam: there is one node, and no slot moves"
		wheel   = "below the seam: the timing wheel and the wall clock; a simulated world has timers of its own"
		load    = "a matter of load and pace: nothing wrong follows from it"
		workers = "below the seam: the workers of ants; a simulated world has goroutines of its own, and nobody ends one"
		users   = "no code of others blocks for ever, or hears thousands of lines"
		refused = "no command is refused alone, as an ACL would"
	)
	all := map[string]string{
		"derived-name-is-a-name": "the simulation has names of its own choice",
		"campaign-enters-again":  "no election is held in the simulation",
		"centuries-overflow":     load,
	}
	for reason, ids := range map[string]string{
		moving: "moved-not-followed moved-not-learnt ask-without-asking renewal-stays-behind waiter-stays-behind moving-keeps-no-mark " +
			"moving-makes-marks-anywhere moving-frees-by-halves moving-believes-a-mark-is-gone moving-undoes-what-was-there moving-waits-for-ever " +
			"moving-does-not-look moving-empties-the-queue moving-extends-elsewhere moving-notes-elsewhere move-over-too-early moving-patience-ends",
		wheel: "timing-wheel-called-under-a-mutex stop-waits-for-a-stuck-timing-wheel early-look-is-aimed-again ticker-aims-nothing " +
			"stuck-wheel-is-not-noticed silent-wheel-is-not-noticed stuck-wheel-is-not-told",
		load: "token-bucket-off queue-without-bound run-without-bound bound-never-shrinks bound-never-grows bound-collapses bound-learns-nothing " +
			"acquire-overtakes-releases singles-starve-acquires swept-ops-are-sent renewals-wait-for-acquires a-closed-lane-holds-back " +
			"renewals-in-the-order-of-their-coming late-renewals-hold-nobody-back refused-renewals-hold-back unanswered-renewals-hold-nobody-back a-slow-line-holds-back " +
			"first-renewals-in-a-peak every-hold-is-renewed-soon endless-turn " +
			"courtesy-to-itself head-start-for-nobody pause-is-cut-short",
		workers: "callback-that-ends-ends-the-turn stuck-callbacks-keep-the-pool pool-grows-from-what-runs " +
			"turns-not-begun-look-stuck pool-stays-wide release-forgets-what-waits",
		users:   "lines-without-bound close-leaves-callbacks",
		refused: "pexpire-not-undone poison-key-ends-the-batch publish-must-work batch-not-halved refusal-for-everybody",
	} {
		for id := range strings.FieldsSeq(ids) {
			all[id] = reason
		}
	}
	return all
}
