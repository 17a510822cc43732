package scenario

import (
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/contest"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/load"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"
	"github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/report"
	"github.com/seed-786ebc8c/holdfast/engine"
)

// newMultiScenario is contend on several locks at once: each turn of a caller takes --multi-names of the keys, chosen by
// chance and named in any order. The ledger and the witness check exclusion for each of them.
func newMultiScenario(s Stage) Scenario {
	return &contendScenario{Stage: s, waits: meter.NewRecorder(), several: &contest.Several{Names: s.Cfg.MultiNames}}
}

// openSeveral makes the locks of every key, for each caller those of its engine.
func (s *contendScenario) openSeveral(name func(int) string) {
	ofEngine := make([][]*engine.Lock, len(s.Engines))
	for e, eng := range s.Engines {
		for key := range s.Cfg.Keys {
			ofEngine[e] = append(ofEngine[e], load.NewLock(eng, s.Cfg, s.Cfg.Kind, name(key)))
		}
	}
	for i := range s.Cfg.Clients {
		s.several.Locks = append(s.several.Locks, ofEngine[s.engineOf(i)])
	}
	s.contest.Several, s.contest.Seed = s.several, s.Cfg.Seed
}

// engineOf is the engine of a caller.
func (s *contendScenario) engineOf(caller int) int {
	if s.several != nil {
		return caller % len(s.Engines)
	}
	return caller / s.Cfg.Keys % len(s.Engines)
}

// addSeveral reports whether each grant was of all or none.
func (s *contendScenario) addSeveral(r *report.Report) {
	if s.several == nil {
		return
	}
	r.Multi = &report.Multi{Names: s.several.Names, Grants: s.waits.Granted, Torn: s.several.Torn.Load()}
	if torn := r.Multi.Torn; torn > 0 {
		r.Violated = true
		r.Fail("%d grants of several locks were not of all of them", torn)
	}
}
