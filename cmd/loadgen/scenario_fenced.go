package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/engine"
)

// newFencedScenario is contend on fenced locks, whose tokens must rise from grant to grant of a name,
// whichever engine of this process brought it.
func newFencedScenario(s stage) scenario {
	return &contendScenario{stage: s, waits: newRecorder(), tokens: newTokenCheck(s.cfg)}
}

// tokenCheck compares each token with the last one of its name. It is told by the holder, while it holds.
type tokenCheck struct {
	keys []tokensOfKey
	name func(key int) string
}

type tokensOfKey struct {
	mu      sync.Mutex // against holders that overlap, which is what all this looks for
	last    int64
	seen    int64
	notMore int64
	first   string // the first that did not rise, in words
}

func newTokenCheck(cfg *config) *tokenCheck {
	return &tokenCheck{
		keys: make([]tokensOfKey, cfg.keys),
		name: func(key int) string { return lockName(cfg.prefix, 'k', key) },
	}
}

func (t *tokenCheck) granted(key int, _, _ time.Time, lease *engine.Lease) {
	t.note(key, lease.Token())
}

func (t *tokenCheck) note(key int, token int64) {
	k := &t.keys[key]
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen++
	if token <= k.last {
		if k.notMore++; k.first == "" {
			k.first = fmt.Sprintf("%q was granted with token %d after %d", t.name(key), token, k.last)
		}
		return
	}
	k.last = token
}

// tokenReport is what the tokens showed. It is part of the report of the scenario fenced.
type tokenReport struct {
	Checked   int64 `json:"checked"`
	NotRising int64 `json:"not_rising"`
}

// addTo reports, when nobody holds any more; nil was not asked.
func (t *tokenCheck) addTo(r *report) {
	if t == nil {
		return
	}
	out := new(tokenReport)
	var told []string
	for i := range t.keys {
		k := &t.keys[i]
		out.Checked += k.seen
		out.NotRising += k.notMore
		if k.first != "" && len(told) < violationsTold {
			told = append(told, k.first)
		}
	}
	r.Tokens = out
	if out.NotRising > 0 {
		r.violated = true
		r.fail("%d tokens did not rise", out.NotRising)
		r.Failures = append(r.Failures, told...)
	}
}

func (t *tokenReport) rows() [][2]string {
	if t == nil {
		return nil
	}
	return [][2]string{{"tokens", fmt.Sprintf("%s, each compared with the one before of its name: %s did not rise", count(t.Checked), count(t.NotRising))}}
}
