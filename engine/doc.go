// Package engine is Holdfast's public API.
package engine
