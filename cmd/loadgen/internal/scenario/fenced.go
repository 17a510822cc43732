package scenario

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// newFencedScenario is contend on fenced locks, whose tokens must rise from grant to grant of a name,
// whichever engine of this process brought it.
func newFencedScenario(s Stage) Scenario {
	return &contendScenario{Stage: s, waits: meter.NewRecorder(), tokens: newTokenCheck(s.Cfg)}
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

func newTokenCheck(cfg *config.Config) *tokenCheck {
	return &tokenCheck{
		keys: make([]tokensOfKey, cfg.Keys),
		name: func(key int) string { return cfg.LockName('k', key) },
	}
}

func (t *tokenCheck) Granted(key int, _, _ time.Time, lease *engine.Lease) {
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

// addTo reports, when nobody holds any more; nil was not asked.
func (t *tokenCheck) addTo(r *report.Report) {
	if t == nil {
		return
	}
	out := new(report.Tokens)
	var told []string
	for i := range t.keys {
		k := &t.keys[i]
		out.Checked += k.seen
		out.NotRising += k.notMore
		if k.first != "" && len(told) < meter.ViolationsTold {
			told = append(told, k.first)
		}
	}
	r.Tokens = out
	if out.NotRising > 0 {
		r.Violated = true
		r.Fail("%d tokens did not rise", out.NotRising)
		r.Failures = append(r.Failures, told...)
	}
}
