package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/format"
)

// progressEvery is how often the progress line is drawn.
const progressEvery = 200 * time.Millisecond

// progress draws one line on a terminal while a phase runs. On anything else it draws
// nothing.
type progress struct {
	w     io.Writer // nil: nothing is drawn
	pairs func() int64
}

func newProgress(cfg *config.Config, w io.Writer, pairs func() int64) *progress {
	f, ok := w.(*os.File)
	if cfg.NoProgress || !ok || !isatty.IsTerminal(f.Fd()) {
		w = nil
	}
	return &progress{w: w, pairs: pairs}
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
	bar := progressbar.NewOptions64(length.Milliseconds(),
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionClearOnFinish(),
	)
	defer func() { _ = bar.Finish() }() // a terminal that is gone needs no clearing
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
			bar.Describe(fmt.Sprintf("%s  %s pairs/s", what, format.Number(rate)))
			_ = bar.Set64(min(now.Sub(began).Milliseconds(), length.Milliseconds()-1)) // as above
		}
	}
}
