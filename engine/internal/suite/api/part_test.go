package api_test

import (
	"bytes"
	"context"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// partsOf are the labels under which goroutines with such a function on their stack run; "" stands for none.
func partsOf(t *testing.T, function string) map[string]bool {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&out, 1))
	parts, label := make(map[string]bool), regexp.MustCompile(`# labels: .*"holdfast":"([^"]*)"`)
	for _, stack := range strings.Split(out.String(), "\n\n") {
		if !strings.Contains(stack, function) {
			continue
		}
		part := ""
		if found := label.FindStringSubmatch(stack); found != nil {
			part = found[1]
		}
		parts[part] = true
	}
	return parts
}

// Not parallel: it looks at all goroutines, and those of other tests may just begin.
func TestTheProfilerSeesWhatAGoroutineWorksAt(t *testing.T) {
	addr := redistest.Run(t, redistest.Options{}).Addr()
	asked, answered := make(chan struct{}), make(chan struct{})
	pprof.Do(t.Context(), pprof.Labels("holdfast", "caller"), func(ctx context.Context) {
		e := testkit.Open(t, addr, func(cfg *engine.Config) { cfg.NoHandOff = true })
		ls := testkit.Acquire(t, e.Lock("a", engine.WatchdogLease(engine.MinWatchdogLease)))
		testkit.Eventually(t, "it is renewed", func() bool { return e.Stats().Renewals.Sent > 0 })
		e.Lock("b").AcquireAsync(ctx).OnComplete(func(b *engine.Lease, _ error) {
			close(asked)
			<-answered
			_ = b.Release(context.Background())
		})
		<-asked
		other := testkit.Open(t, addr)
		waits := other.Lock("a").AcquireAsync(ctx)
		testkit.Eventually(t, "it waits, and is subscribed", func() bool { return other.Stats().WokenBySubscribe > 0 })
		for function, part := range map[string]string{
			"resp.(*lane).work":       "lane",
			"renew.(*sender).work":    "renew",
			"pubsub.(*Mux).manage":    "mux",
			"callback.(*Pool).turn":   "callbacks",
			"wheel.(*Wheel).tickLoop": "timers",
			"runtime/pprof.Do":        "caller",
		} {
			require.Equal(t, map[string]bool{part: true}, partsOf(t, function), function)
		}
		require.NotEmpty(t, partsOf(t, "rueidis.(*pipe)._background"))
		for part := range partsOf(t, "rueidis.(*pipe)._background") {
			require.Contains(t, []string{"connection", "mux"}, part)
		}
		close(answered)
		testkit.Release(t, ls)
		got, err := waits.Await(testkit.Limited(t))
		require.NoError(t, err)
		testkit.Release(t, got)
	})
}
