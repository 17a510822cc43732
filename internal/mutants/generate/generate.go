package generate

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Candidate is one change of one file.
type Candidate struct {
	Op   string // what kind of change: boundary, negation, …
	File string
	Line int
	Old  string // what stands in the line, or the first one of several
	New  string // and what then does
	Nth  int    // which of those that say the same, from 1: a line may stand in a file several times
	Text string // the whole file
}

// ID names a candidate by what it changes and not by where: it stays as long as the text does.
func (c Candidate) ID() string {
	return fmt.Sprintf("%s: %s: %s -> %s%s", c.File, c.Op, c.Old, c.New, c.Times())
}

// Times is which of several that say the same this is; nothing for the first.
func (c Candidate) Times() string {
	if c.Nth < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d)", c.Nth)
}

// Of answers the candidates of a file, in the order of its text.
func Of(name, text string) ([]Candidate, error) {
	var changes []change
	var err error
	switch path.Ext(name) {
	case ".go":
		changes, err = ofGo(name, text)
	case ".lua":
		changes = ofLua(text)
	default:
		err = fmt.Errorf("%s is neither Go nor Lua", name)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.from - b.from })
	var all []Candidate
	times := map[string]int{}
	for _, c := range changes {
		if text[c.from:c.to] == c.text {
			continue
		}
		changed := text[:c.from] + c.text + text[c.to:]
		one := Candidate{
			Op: c.op, File: name, Line: 1 + strings.Count(text[:c.from], "\n"),
			Old: lineAt(text, c.from), New: lineAt(changed, c.from), Nth: 1, Text: changed,
		}
		times[one.ID()]++
		one.Nth = times[one.ID()]
		all = append(all, one)
	}
	return all, nil
}

// A change replaces what stands from one offset to another.
type change struct {
	op       string
	from, to int
	text     string
}

func lineAt(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	to := strings.IndexByte(text[at:], '\n')
	if to < 0 {
		return strings.TrimSpace(text[from:])
	}
	return strings.TrimSpace(text[from : at+to])
}
