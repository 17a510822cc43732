package engine

// A release of several locks may be published for those only that somebody listens to. The rule: whatever is freed by a
// release of a plain lock is published if anybody would hear of it, and a pattern or a replica hears of everything.

// simPublish is a release on its way through the server.
type simPublish struct {
	keys  []string        // those that are held, and of which somebody would hear
	heard map[string]bool // the channels that it was published on
}

// audience changes who else listens: a pattern, a replica, one that is away for a moment, or nobody. It draws nothing.
func (v *simServer) audience() {
	turn := v.s.commands / 32 % 6
	v.twin.Patterns, v.twin.Replicas, v.twin.Backlog = int64(turn%6/5), int64(turn%5/4), turn == 3
}

// beforePublish notes what a release has to publish; nil: it is none, or one that tells nobody.
func (v *simServer) beforePublish(args []string, script string) *simPublish {
	if script != "release" || args[3+len(simKeysOf(args))] == "" {
		return nil
	}
	p := &simPublish{heard: make(map[string]bool)}
	everybody := v.twin.Patterns+v.twin.Replicas > 0 || v.twin.Backlog
	for _, key := range simKeysOf(args) {
		if len(v.twin.Hash(key)) > 0 && (everybody || v.listeners(simLockChannel(key)) > 0) {
			p.keys = append(p.keys, key)
		}
	}
	v.s.published = p.heard
	return p
}

// after looks at what was published.
func (p *simPublish) after(v *simServer) {
	if p == nil {
		return
	}
	v.s.published = nil
	for _, key := range p.keys {
		if len(v.twin.Hash(key)) == 0 && !p.heard[simLockChannel(key)] {
			v.s.fail("a release is published where somebody hears it", "%q was given back, and nobody was told", key)
		}
	}
}

// simLockChannel is where releases of a name are published: no name here has a brace.
func simLockChannel(key string) string { return "redisson_lock__channel:{" + key + "}" }

// simPublishSabotages break that rule.
//
//nolint:gochecknoglobals // a table
var simPublishSabotages = []simSabotage{
	{"a release is published where somebody hears it", "a waiter is not told", []simKind{simLock}, func(s *sim) bool {
		return s.freedInSilence(func(v *simServer, key string) bool { return v.listeners(simLockChannel(key)) > 0 })
	}},
	{"a release is published where somebody hears it", "a replica is not told", []simKind{simLock}, func(s *sim) bool {
		return s.freedInSilence(func(v *simServer, _ string) bool { return v.twin.Replicas > 0 })
	}},
	{"a release is published where somebody hears it", "a pattern is not told", []simKind{simLock}, func(s *sim) bool {
		return s.freedInSilence(func(v *simServer, _ string) bool { return v.twin.Patterns > 0 })
	}},
	{"a release is published where somebody hears it", "a backlog is not told", []simKind{simLock}, func(s *sim) bool {
		return s.freedInSilence(func(v *simServer, _ string) bool { return v.twin.Backlog })
	}},
}

// freedInSilence deletes a name that is held, as a release would that publishes nothing.
func (s *sim) freedInSilence(moment func(v *simServer, key string) bool) bool {
	v := s.server
	for _, n := range s.names {
		if len(v.twin.Hash(n.name)) > 0 && moment(v, n.name) {
			p := v.beforePublish([]string{"EVALSHA", "", "1", n.name, "PUBLISH"}, "release")
			v.twin.Delete(n.name)
			p.after(v)
			return true
		}
	}
	return false
}
