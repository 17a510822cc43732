package scenario

import "github.com/seed-786ebc8c/holdfast/cmd/loadgen/internal/meter"

// LedgerOf returns the record of s of who holds what, once s is prepared: a test of the commands puts
// something wrong into it.
func LedgerOf(s Scenario) *meter.Ledger {
	switch s := s.(type) {
	case *lockScenario:
		return s.load.Ledger
	case *holdScenario:
		return s.held.Ledger
	case *contendScenario:
		return s.contest.Ledger
	case *latchScenario:
		return s.ledger
	default:
		return nil
	}
}

// PermitsOf returns the count of s of the permits that are held.
func PermitsOf(s Scenario) *meter.Permits { return s.(*contendScenario).permits.count.Held }

// LostPlaces is how many places in the queue of its first name s has seen lost so far; 0 where it keeps no queue.
func LostPlaces(s Scenario) int64 {
	c, ok := s.(*contendScenario)
	if !ok || c.order == nil {
		return 0
	}
	line := &c.order.keys[0]
	line.mu.Lock()
	defer line.mu.Unlock()
	return line.line.LostPlace
}

// LetInEarly is how many callers of s have been let in before the last count of their latch.
func LetInEarly(s Scenario) (n int64) {
	for _, l := range s.(*latchScenario).latches {
		n += l.Early.Load()
	}
	return n
}
