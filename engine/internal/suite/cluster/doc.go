// Package cluster has the engine on more than one server: clusters whose slots move, masters that change.
//
// There are tests only.
package cluster
