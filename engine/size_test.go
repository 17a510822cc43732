package engine

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Every pair makes one of each, cold memory is what it pays for, and the allocator rounds up to the next
// size class: one byte more costs a pair another cache line.
func TestWhatAPairAllocatesFitsItsSizeClass(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(288))
	require.LessOrEqual(t, unsafe.Sizeof(acquireOp{}), uintptr(384))
	require.LessOrEqual(t, unsafe.Sizeof(releaseOp{}), uintptr(88))
	require.LessOrEqual(t, unsafe.Sizeof(attempt{}), uintptr(128))
	require.LessOrEqual(t, unsafe.Sizeof(Lease{}), uintptr(48))
}
