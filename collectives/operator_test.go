package collectives

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
)

// TestPrefixFunc: the function is what Scan and Exscan reduce by.
func TestPrefixFunc(t *testing.T) {
	ctx := context.Background()
	type pair struct{ a, b int32 }
	// x ↦ a·x + b, one after the other: associative, not commutative.
	after := func(acc, x []pair) {
		for i := range acc {
			acc[i] = pair{x[i].a * acc[i].a, x[i].a*acc[i].b + x[i].b}
		}
	}
	for n := 1; n <= 5; n++ {
		cs := local(t, n)
		require.NoError(t, errors.Join(each(cs, func(c *comm.Communicator) error {
			in := func(r int) pair { return pair{int32(2*r + 3), int32(r + 1)} }
			want := []pair{in(0)}
			for r := 1; r <= c.Rank(); r++ {
				acc := []pair{want[r-1]}
				after(acc, []pair{in(r)})
				want = append(want, acc[0])
			}
			src, dst := []pair{in(c.Rank())}, make([]pair, 1)
			if err := ScanFunc(ctx, c, dst, src, after); err != nil {
				return err
			}
			if got := dst[0]; got != want[c.Rank()] {
				return fmt.Errorf("Scan, rank %d of %d: %v, want %v", c.Rank(), n, got, want[c.Rank()])
			}
			if err := ExscanFunc(ctx, c, dst, src, after); err != nil {
				return err
			}
			if got := dst[0]; c.Rank() > 0 && got != want[c.Rank()-1] {
				return fmt.Errorf("Exscan, rank %d of %d: %v, want %v", c.Rank(), n, got, want[c.Rank()-1])
			}
			return nil
		})...))
	}
}
