package format

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// Number shows three digits that matter, and thousands in groups.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return Count(int64(math.Round(v)))
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// Count shows thousands in groups.
func Count(n int64) string { return humanize.Comma(n) }

// Plural counts things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
