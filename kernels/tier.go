package kernels

import (
	"fmt"
	"os"
	"strings"
)

// tier is what loops are made of. Each tier has the bits of all others.
type tier uint8

const (
	plain  tier = iota // Go
	avx2               // assembly for AVX2 and F16C, Go where there is none
	avx512             // the same for AVX-512 (F, BW, DQ and VL) and BMI2
	numTiers
)

var tiers = [numTiers]string{plain: "go", avx2: "avx2", avx512: "avx512"}

func (t tier) String() string { return tiers[t] }

// chosen is the tier of all reductions of this process.
var chosen = choose(os.Getenv("WEFT_KERNELS"), best(), raceEnabled)

// CheckLimit returns an error if limit is no value of WEFT_KERNELS.
func CheckLimit(limit string) error {
	for _, name := range tiers {
		if limit == name || limit == "" {
			return nil
		}
	}
	return fmt.Errorf("kernels: %q is none of %s", limit, strings.Join(tiers[:], ", "))
}

// choose returns the best tier, but none above limit if that names one. Unless it
// does, a program under the race detector gets plain Go, as the detector does not
// see what assembly reads and writes.
func choose(limit string, best tier, race bool) tier {
	for t := plain; t < numTiers; t++ {
		if limit == t.String() {
			return min(t, best)
		}
	}
	if race {
		return plain
	}
	return best
}
