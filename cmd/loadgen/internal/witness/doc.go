// Package witness is the part of this process in a run of several processes over one file of internal/witness: they
// begin together, exclusion is checked across them, and each reports what all did.
package witness
