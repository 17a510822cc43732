package main

import (
	"os"
	"runtime"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// manyInFlight is from how many operations in flight on a load is faster without the servers' processors. With fewer the
// lanes poll for their replies, which takes a second one.
const manyInFlight = 64

// leaveProcessors has this process use so many processors less than there are as servers of its own run beside it, where
// that leaves it any, unless the environment names a number. A load of many futures would otherwise take the servers'
// processors now and then, and be slower itself: on two cores by up to a quarter. Blocking callers leave them idle
// anyway while they wait. The yardstick runs under the same.
func leaveProcessors(cfg *config.Config, srv *topology.Server) {
	if os.Getenv("GOMAXPROCS") != "" || cfg.API != "async" || cfg.Inflight < manyInFlight {
		return
	}
	all, own := runtime.GOMAXPROCS(0), srv.Processes()
	if own > 0 && own < all {
		runtime.GOMAXPROCS(all - own)
	}
}
