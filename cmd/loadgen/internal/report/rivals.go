package report

// Mutex is what the mutex reached.
type Mutex struct {
	Callers    int          `json:"callers"`
	GrantsPerS float64      `json:"grants_per_s"`
	Wait       *Latency     `json:"acquire_us"` // null in all processes but the first
	Fairness   *Fairness    `json:"fairness"`
	Rounds     []MutexRound `json:"rounds"`
}

// MutexRound is one turn of the mutex and of the scenario.
type MutexRound struct {
	Mutex    float64 `json:"mutex_grants_per_s"`
	Scenario float64 `json:"scenario_grants_per_s"`
}

// Yardstick is the raw pipeline beside the scenario, round by round.
type Yardstick struct {
	Kind      string           `json:"kind"` // pipeline or single
	PairsPerS float64          `json:"pairs_per_s"`
	ClientCPU float64          `json:"client_cpu_us_per_pair"`
	ServerCPU *float64         `json:"server_cpu_us_per_pair"`
	CPURatio  *float64         `json:"client_cpu_ratio"`
	Rounds    []YardstickRound `json:"rounds"`
}

// YardstickRound is one turn of the yardstick and of the scenario.
type YardstickRound struct {
	Yardstick float64 `json:"yardstick_pairs_per_s"`
	Scenario  float64 `json:"scenario_pairs_per_s"`
}
