package harness

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxSize bounds sizes, so that no sum of a few overflows.
const maxSize = 1 << 40

// parseSize reads a number of bytes with an optional suffix K, M or G, which
// stand for 2^10, 2^20 and 2^30; "KB" and "KiB" mean the same as "K".
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGkmgiBb")
	unit := int64(1)
	switch strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s[len(digits):]), "B"), "I") {
	case "":
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	default:
		return 0, fmt.Errorf("size %q", s)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(f >= 0) || f*float64(unit) > maxSize {
		return 0, fmt.Errorf("size %q: a number such as 8, 64K or 16M is wanted", s)
	}
	return int64(math.Round(f * float64(unit))), nil
}

// sizes is a series of sizes: from min to max by a factor or, if that is not
// above 1, by a step.
type sizes struct {
	min, max, step int64
	factor         float64
}

func (s sizes) validate() error {
	switch {
	case s.min < 1:
		return fmt.Errorf("-b: at least 1 byte")
	case s.max < s.min:
		return fmt.Errorf("-e %d is less than -b %d", s.max, s.min)
	case s.factor <= 1 && s.step < 1:
		return fmt.Errorf("-f above 1 or -i above 0 is needed")
	}
	return nil
}

func (s sizes) all() []int64 {
	var all []int64
	for n := s.min; n <= s.max; {
		all = append(all, n)
		if s.factor > 1 {
			n = max(n+1, int64(math.Round(float64(n)*s.factor)))
		} else {
			n += s.step
		}
	}
	return all
}

// counts are the elements per rank for the series: no two alike.
func (s sizes) counts(c *collective, elem, ranks int) []int64 {
	if c.kind == barrier {
		return []int64{0}
	}
	var counts []int64
	for _, n := range s.all() {
		count := c.perRank(n, elem, ranks)
		if len(counts) == 0 || counts[len(counts)-1] != count {
			counts = append(counts, count)
		}
	}
	return counts
}
