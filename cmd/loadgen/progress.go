package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
)

// progressEvery is how often the progress line is drawn.
const progressEvery = 200 * time.Millisecond

// progress draws one line on a terminal while a phase runs. On anything else it draws
// nothing.
type progress struct {
	w     io.Writer // nil: nothing is drawn
	width func() int
	pairs func() int64
}

func newProgress(cfg *config.Config, w io.Writer, pairs func() int64) *progress {
	width := columnsOf(w)
	if cfg.NoProgress || width() == 0 {
		w = nil
	}
	return &progress{w: w, width: width, pairs: pairs}
}

// during draws while fn runs, which is expected to take about length.
func (p *progress) during(what string, length time.Duration, fn func()) {
	if p.w == nil || length <= 0 {
		fn()
		return
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends with fn
		defer close(gone)
		p.draw(what, length, quit)
	}()
	defer func() {
		close(quit)
		<-gone
	}()
	fn()
}

func (p *progress) draw(what string, length time.Duration, quit <-chan struct{}) {
	defer say(p.w, eraseLine)
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	began, seen, last := time.Now(), p.pairs(), time.Now()
	for {
		select {
		case <-quit:
			return
		case now := <-ticker.C:
			done := p.pairs()
			rate := float64(max(done-seen, 0)) / now.Sub(last).Seconds()
			seen, last = done, now
			share := min(now.Sub(began).Seconds()/length.Seconds(), 1)
			say(p.w, "%s%s", eraseLine, progressLine(p.width(), what, share, rate))
		}
	}
}

// eraseLine goes to the beginning of the line and empties it (ECMA-48: EL).
const eraseLine = "\r\x1b[K"

// progressBar is how many columns the bar has.
const progressBar = 30

// progressLine is one line of fewer columns than width, so that no terminal breaks it.
func progressLine(width int, what string, share, rate float64) string {
	done := int(share * progressBar)
	bar := strings.Repeat("█", done) + strings.Repeat("░", progressBar-done)
	return text.Trim(fmt.Sprintf("%3.0f %% %s %s  %s pairs/s", 100*share, bar, what, format.Number(rate)), width-1)
}
