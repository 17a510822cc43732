package scenario

import (
	"context"

	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/config"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
)

// addLeftover looks for keys of n locks when everybody has released them. It does not look where a key may be there for
// good reason: an operation failed, and the engine still cleans up after it; answers were lost, or a client or a master
// died; or somebody else may use the same names.
func (s *Stage) addLeftover(ctx context.Context, r *report.Report, n int, name func(int) string) error {
	chaos, shared := s.Cfg.Chaos, s.Cfg.PrefixGiven && len(s.Cfg.Addrs) > 0
	if len(r.Errors) > 0 || config.Repeats(chaos) || config.CountsOthers(chaos) || shared {
		return nil
	}
	left, err := s.Srv.CountKeys(ctx, n, name)
	r.AddLeft(left)
	return err
}
