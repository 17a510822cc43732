package main

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// addLeftover looks for keys of n locks when everybody has released them. It does not look where a key may be there for
// good reason: an operation failed, and the engine still cleans up after it; answers were lost, or a client or a master
// died; or somebody else may use the same names.
func (s *stage) addLeftover(ctx context.Context, r *report, n int, name func(int) string) error {
	chaos, shared := s.cfg.chaos, s.cfg.prefixGiven && len(s.cfg.addrs) > 0
	if len(r.Errors) > 0 || repeats(chaos) || countsOthers(chaos) || shared {
		return nil
	}
	left, err := s.srv.countKeys(ctx, n, name)
	r.addLeft(left)
	return err
}

func (r *report) addLeft(n int64) {
	if n > 0 {
		r.fail("%d locks are still on the server after their release", n)
	}
}

// countKeys counts those of n locks that have a key.
func (s *server) countKeys(ctx context.Context, n int, name func(int) string) (left int64, err error) {
	b := s.client.B()
	for first := 0; first < n; first += auditBatch {
		cmds := make([]rueidis.Completed, 0, auditBatch)
		for i := first; i < min(first+auditBatch, n); i++ {
			cmds = append(cmds, b.Exists().Key(name(i)).Build())
		}
		for _, reply := range s.client.DoMulti(ctx, cmds...) {
			one, err := reply.AsInt64()
			if err != nil {
				return left, fmt.Errorf("look for keys that are left: %s", s.hide(err))
			}
			left += one
		}
	}
	return left, nil
}
