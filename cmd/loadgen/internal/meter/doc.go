// Package meter collects what a run shows: how long operations took, what failed, who held what (the ledger),
// how long somebody waited for a grant (the gaps), and what the process used. It decides nothing.
package meter
