package twin

import "strings"

// latchdown is the twin of latchdown.lua.
type latchdown struct {
	*Server
	publish, tag string
}

func (l *latchdown) down(key, what string) Reply {
	notes := notesOf(key)
	who, request, _ := strings.Cut(what, ":")
	request, by, _ := strings.Cut(request, ":")
	who += ":given"
	note, ended, count := l.pcall("HGET", notes, who), l.pcall("HGET", notes, "ended"), l.pcall("GET", key)
	for _, read := range []Reply{note, ended, count} {
		if read.table() {
			return read
		}
	}
	last := 0.0
	if digits(note.Text) && note.Text != "" {
		last, _ = tonumber(note.Text)
	}
	if last >= want(request) {
		return number(0)
	}
	left, is := stands(count)
	if !is {
		return number(-1)
	}
	done := l.keep(notes, who, request, note)
	if done.Kind != Nil {
		return done
	} else if count.Kind == Nil {
		return number(0)
	}
	opens := left <= want(by)
	if opens {
		opened, deleted := marksOf(ended.Text)
		done = l.pcall("HSET", notes, "ended", marked(markAfter(opened, deleted, l.micros), deleted))
		if !done.table() {
			done = l.pcall("DEL", key)
		}
	} else {
		done = l.pcall("DECRBY", key, by)
	}
	if done.table() {
		l.forget(notes, who, note)
		if opens {
			l.forget(notes, "ended", ended)
		}
		return done
	} else if !opens {
		return number(0)
	}
	heard := l.pcall(l.publish, latchChannelOf(key, l.tag), "0")
	if heard.table() {
		return number(-2)
	}
	return heard
}

func (l *latchdown) run(KEYS, ARGV list) Reply {
	now := l.time()
	l.publish, l.tag = ARGV.at(1), ARGV.at(2)
	return eachStretch(now, KEYS, ARGV, 3, l.down)
}
