// Package config is what a run was asked for: the flags of `loadgen run`, read and checked, and the words they know.
// The flags themselves, and what refuses them, stand with the command.
package config
