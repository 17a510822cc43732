package twin

// acquire is the twin of acquire.lua.
type acquire struct {
	*Server
	lease, field string
	copying      bool
	out          outs
	granted      int64
	template     string
	templated    bool // template is not nil
	inline       bool
}

func (a *acquire) busy(key string) Reply {
	mode := a.pcall("HEXISTS", key, "mode")
	if mode.is(0) {
		return a.pcall("PTTL", key)
	} else if mode.is(1) {
		return number(-3)
	}
	return mode
}

// take answers Nil for granted. A key that cannot get its TTL must not stay: it would be immortal.
func (a *acquire) take(key string) Reply {
	there := a.pcall("EXISTS", key)
	if there.is(1) {
		return a.busy(key)
	} else if !there.is(0) {
		return there
	}
	set := a.pcall("HSET", key, a.field, "1")
	if set.table() {
		return set
	}
	ttl := a.pcall("PEXPIRE", key, a.lease)
	if ttl.is(1) {
		return Reply{}
	}
	undone := a.pcall("HDEL", key, a.field)
	if !undone.is(1) {
		return failure("HOLDFAST key without expiry could not be undone, delete it by hand: " + key)
	}
	return ttl
}

// clone is what take says, by fewer commands; the second result is true if they are refused here.
func (a *acquire) clone(key string) (Reply, bool) {
	if a.inline {
		if !a.pcall("RESTORE", key, a.lease, a.template).err() {
			return Reply{}, false
		}
		v := a.take(key) // says whether the key is held, or elsewhere
		return v, v.Kind == Nil
	}
	v := a.pcall("COPY", a.template, key)
	if v.is(1) {
		return Reply{}, false
	} else if v.is(0) {
		return a.busy(key), false
	}
	return a.take(key), true
}

func (a *acquire) refused() {
	a.copying, a.templated = false, false
	a.out.add(0, number(0))
}

func (a *acquire) run(KEYS, ARGV list) Reply {
	now := a.time()
	if float64(now) > want(ARGV.at(3)) {
		return array([]Reply{number(now)})
	}
	a.lease, a.field, a.copying = ARGV.at(1), ARGV.at(2), ARGV.at(4) == "1"
	a.out = begin(now)
	keys, skip, n := keysAndSkip(KEYS, ARGV, 4, len(ARGV)-4)
	a.inline = len(KEYS) == 0
	if a.inline {
		a.copying = a.copying && n > 1
	}
	for i := 1; i <= n; i++ {
		var v Reply
		key := keys.at(skip + i)
		if a.templated {
			var no bool
			if v, no = a.clone(key); no {
				a.refused()
			}
		} else {
			v = a.take(key)
			if a.copying && v.Kind == Nil {
				a.template, a.templated = key, true
				if a.inline {
					template := a.pcall("DUMP", key)
					a.template = template.Text
					if template.Kind != Text {
						a.refused()
					}
				}
			}
		}
		if v.Kind == Nil {
			a.granted++
		} else {
			a.out.add(i, v)
		}
	}
	return a.out.end(a.granted)
}
