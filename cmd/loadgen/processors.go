package main

import (
	"os"
	"runtime"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/topology"
)

// leaveProcessors has this process use so many processors less than there are as servers of its own run beside it, and
// one at least, unless the environment names a number. A load of futures would otherwise take the servers' processors
// now and then, and be slower itself: on two cores by a tenth to a fifth. Blocking callers leave them idle anyway while
// they wait. The yardstick runs under the same.
func leaveProcessors(cfg *config.Config, srv *topology.Server) {
	if os.Getenv("GOMAXPROCS") != "" || cfg.API != "async" {
		return
	}
	if own := srv.Processes(); own > 0 {
		runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)-own))
	}
}
