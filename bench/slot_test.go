package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// BenchmarkSlot is what routing costs every operation: one CRC16 over what is hashed of
// a name, which is all of it or the part between braces.
func BenchmarkSlot(b *testing.B) {
	for _, name := range []string{
		strings.Repeat("n", 8),
		strings.Repeat("n", 24),
		"orders:{customer}:locked",
		strings.Repeat("n", 96),
	} {
		tag := "no"
		if strings.Contains(name, "{") {
			tag = "yes"
		}
		b.Run(fmt.Sprintf("len=%d/tag=%s", len(name), tag), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(name)))
			for b.Loop() {
				slot.Of(name)
			}
		})
	}
}
