package twin

import (
	"strconv"
	"testing"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// BenchmarkScripts is an acquire and a release of a key, as a lone caller sends them; and the same of 16 keys at once.
func BenchmarkScripts(b *testing.B) {
	for _, keys := range []int{1, 16} {
		b.Run("keys="+strconv.Itoa(keys), func(b *testing.B) {
			s := New()
			now := int64(1_700_000_000_000_000)
			s.Micros = func() int64 { return now }
			for _, text := range resp.ScriptTexts() {
				s.Do([]string{"SCRIPT", "LOAD", text})
			}
			n := strconv.Itoa(keys)
			take, free := []string{"EVALSHA", shaOfName("acquire"), n}, []string{"EVALSHA", shaOfName("release"), n}
			for i := range keys {
				take, free = append(take, "key"+strconv.Itoa(i)), append(free, "key"+strconv.Itoa(i))
			}
			field := "6e3814a1-e847-452b-a982-45baf93a1df2:5700000000000000001"
			take = append(take, "30000", field, "1700000009000", "1")
			free = append(free, "PUBLISH", "0", "0", "", field, n)
			b.ReportAllocs()
			for b.Loop() {
				now += 10
				if r := s.Do(take); r.Array[1].Int != int64(keys) {
					b.Fatal(r)
				}
				if r := s.Do(free); r.Array[1].Int != int64(keys) {
					b.Fatal(r)
				}
			}
			b.ReportMetric(float64(2*b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
