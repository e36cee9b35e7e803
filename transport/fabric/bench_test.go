package fabric_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/pointer"
)

// BenchmarkPutCounted is a phase of one counted put, in every mode and on the
// transport over mapped memory.
func BenchmarkPutCounted(b *testing.B) {
	for _, n := range []int{64, 4096, 1 << 20} {
		for _, mode := range append([]fabric.Mode{255}, modes...) {
			name := fmt.Sprintf("%d/%v", n, mode)
			open := func() transport.Transport {
				f, err := fabric.NewLocal(fabric.WithMode(mode), fabric.WithFaults(""))
				require.NoError(b, err)
				return f
			}
			if mode == 255 {
				name = fmt.Sprintf("%d/pointer", n)
				open = func() transport.Transport { return pointer.NewLocal() }
			}
			b.Run(name, func(b *testing.B) {
				owner, user := open(), open()
				m, err := owner.Alloc(2 << 20)
				require.NoError(b, err)
				e, err := owner.Create(transport.EndpointConfig{Size: 2 << 20, Counted: true})
				require.NoError(b, err)
				require.NoError(b, e.Ready(b.Context()))
				require.NoError(b, e.Bind(0, m))
				x, err := e.Export()
				require.NoError(b, err)
				in, err := user.Import(x)
				require.NoError(b, err)
				require.NoError(b, in.Ready(b.Context()))
				c, err := user.NewCompletion(1)
				require.NoError(b, err)
				src := make([]byte, n)
				at := transport.Handle{ID: in.ID(), Offset: 4096}
				b.SetBytes(int64(n))
				for b.Loop() {
					if err := user.PutCounted(c, at, src, 0); err != nil {
						b.Fatal(err)
					}
					_ = c.Submit()
					_ = c.Arrive()
					for !c.Test() {
						runtime.Gosched()
					}
					if _, err := c.Report(); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, user.Close())
				require.NoError(b, owner.Close())
				require.NoError(b, m.Free())
			})
		}
	}
}
