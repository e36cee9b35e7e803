package fabric_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// asynchronous runs a test on the modes with an engine, one step at a time.
func asynchronous(t *testing.T, f func(t *testing.T, p *pair)) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		if mode == fabric.ModeFast {
			return
		}
		f(t, openPair(t, one, fabric.WithMode(mode), fabric.WithSteps(), fabric.WithSeed(rand.Uint64())))
	})
}

// TestIncomplete: a submitted operation is not executed at once, and its counter
// is seen half way, with bytes there that are not the first ones.
func TestIncomplete(t *testing.T) {
	asynchronous(t, func(t *testing.T, p *pair) {
		const n = 4096
		shuffled := false
		for round := range uint64(20) {
			clear(p.mem.Bytes()[1024:][:n])
			p.ts[0].Fence(transport.FenceRelease)
			require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024), filled(n, 7), 0))
			require.False(t, p.ts[1].Step(), "it is not submitted")
			require.NoError(t, p.c.Submit())
			require.NoError(t, p.c.Arrive())
			require.False(t, p.c.Test())
			require.Equal(t, round*n, p.mem.Load(0))
			last, half := round*n, 0
			for p.ts[1].Step() {
				now := p.mem.Load(0)
				require.GreaterOrEqual(t, now, last)
				if now > round*n && now < (round+1)*n {
					half++
					require.False(t, p.c.Test(), "the counter is half way")
					_, err := p.c.Report()
					require.ErrorIs(t, err, transport.ErrPhase)
					shuffled = shuffled || p.mem.Bytes()[1024] == 0
				}
				last = now
				landed := uint64(0)
				for _, b := range p.mem.Bytes()[1024:][:n] {
					landed += uint64(b / 7)
				}
				require.Equal(t, now-round*n, landed, "the counter counts what is there")
			}
			require.Greater(t, half, 2)
			require.Equal(t, (round+1)*n, p.mem.Load(0))
			require.True(t, p.report().Clean())
			for _, b := range p.mem.Bytes()[1024:][:n] {
				require.EqualValues(t, 7, b)
			}
		}
		require.True(t, shuffled, "the first bytes come first, always")
	})
}

// TestOrder: operations end in another order than that of their submission, and
// so do phases.
func TestOrder(t *testing.T) {
	asynchronous(t, func(t *testing.T, p *pair) {
		const ops = 6
		orders := map[string]bool{}
		for range 30 {
			cs := make([]transport.Completion, ops)
			for i := range cs {
				c, err := p.ts[1].NewCompletion(1)
				require.NoError(t, err)
				cs[i] = c
				require.NoError(t, p.ts[1].Put(c, p.at(1024+uint64(i)*64), filled(64, byte(i+1))))
				require.NoError(t, c.Submit())
				require.NoError(t, c.Arrive())
			}
			var order []byte
			over := make([]bool, ops)
			for len(order) < ops {
				require.True(t, p.ts[1].Step())
				for i, c := range cs {
					if !over[i] && c.Test() {
						over[i] = true
						order = append(order, byte('0'+i))
						r, err := c.Report()
						require.NoError(t, err)
						require.True(t, r.Clean())
					}
				}
			}
			orders[string(order)] = true
		}
		require.Greater(t, len(orders), 10)
		require.NotEqual(t, map[string]bool{"012345": true}, orders)
	})
}

// TestMulticastReplicasDiffer: the replicas get their bytes at different times.
func TestMulticastReplicasDiffer(t *testing.T) {
	asynchronous(t, func(t *testing.T, p *pair) {
		var id [2]transport.EndpointID
		var mem [2]transport.Memory
		p.group(&id, &mem)
		require.NoError(t, p.ts[1].PutCountedMultimem(p.c, transport.Handle{ID: id[1], Offset: 1024}, filled(2048, 3), 0))
		require.NoError(t, p.c.Submit())
		differ := false
		for p.ts[1].Step() {
			differ = differ || mem[0].Load(0) != mem[1].Load(0)
		}
		require.True(t, differ)
		require.NoError(t, p.c.Arrive())
		require.True(t, p.report().Clean())
		for _, m := range mem {
			require.EqualValues(t, 2048, m.Load(0))
		}
	})
}

// group makes a multicast endpoint of both ranks, by the calls of a fabric.
func (p *pair) group(id *[2]transport.EndpointID, mem *[2]transport.Memory) {
	t := p.t
	for r, f := range p.ts {
		base, err := f.ReserveIDs(3)
		require.NoError(t, err)
		id[r] = base + 1
	}
	require.NoError(t, p.ts[0].CreateEndpoint(id[0], fabric.Properties{Type: fabric.Multicast, Size: 4096, Counted: true, Members: 2}))
	x, err := p.ts[0].ExportEndpoint(id[0])
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, p.ts[1].ImportEndpoint(id[1], x))
	y, err := p.ts[1].ExportDevice()
	require.NoError(t, err)
	defer y.Close()
	require.NoError(t, p.ts[0].ImportDevice(y))
	require.NoError(t, p.ts[0].AddDevice(id[0]))
	for range 10 {
		ready, err := p.ts[1].Query(id[1])
		require.NoError(t, err)
		require.False(t, ready, "a member is missing")
	}
	require.NoError(t, p.ts[1].AddDevice(id[1]))
	for r, f := range p.ts {
		await(t, func() bool {
			ok, err := f.Query(id[r])
			require.NoError(t, err)
			return ok
		})
		mem[r], err = f.Alloc(4096)
		require.NoError(t, err)
		require.NoError(t, f.BindMemory(id[r], 0, mem[r], 0, 4096))
		t.Cleanup(func() {
			require.NoError(t, f.Close())
			require.NoError(t, mem[r].Free())
		})
	}
}

// TestSubmitFetching: only gets are submitted, and the puts wait.
func TestSubmitFetching(t *testing.T) {
	asynchronous(t, func(t *testing.T, p *pair) {
		copy(p.mem.Bytes()[2048:], filled(64, 9))
		got := make([]byte, 64)
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), filled(64, 5)))
		require.NoError(t, p.ts[1].Get(p.c, got, p.at(2048)))
		require.NoError(t, p.c.SubmitFetching())
		p.steps()
		require.Equal(t, filled(64, 9), got)
		require.Equal(t, make([]byte, 64), p.mem.Bytes()[1024:][:64])
		require.NoError(t, p.c.Submit())
		require.NoError(t, p.c.Arrive())
		p.steps()
		require.True(t, p.report().Clean())
		require.Equal(t, filled(64, 5), p.mem.Bytes()[1024:][:64])
		// Nothing but gets: all is submitted.
		require.NoError(t, p.ts[1].Get(p.c, got, p.at(1024)))
		require.NoError(t, p.c.SubmitFetching())
		require.NoError(t, p.c.Arrive())
		p.steps()
		require.True(t, p.report().Clean())
		require.Equal(t, filled(64, 5), got)
	})
}

// TestWaitReads: a source may change once it was read, before it has arrived.
func TestWaitReads(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode), withStepsIf(mode != fabric.ModeFast))
		src, operand := filled(256, 4), filled(8, 1)
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), src))
		require.NoError(t, p.ts[1].Atom(p.c, make([]byte, 8), p.at(2048), operand, transport.RedAdd, kernels.TypeUint64))
		require.NoError(t, p.c.Submit())
		p.ts[1].Step()
		require.NoError(t, p.c.WaitReads())
		clear(src)
		clear(operand)
		p.steps()
		require.NoError(t, p.c.Arrive())
		require.True(t, p.report().Clean())
		require.Equal(t, filled(256, 4), p.mem.Bytes()[1024:][:256])
		require.Equal(t, uint64(0x0101010101010101), p.mem.Load(2048))
		require.Empty(t, p.ts[1].Diagnostics())
	})
}

// TestExpect: with explicit transactions a phase ends when as many have been
// expected as its operations have, each in its own unit.
func TestExpect(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode))
		p.dirty = true
		c, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Arrivals: 2, Expect: true})
		require.NoError(t, err)
		for _, k := range []struct {
			name  string
			start func() error
			want  int
		}{
			{"put", func() error { return p.ts[1].Put(c, p.at(1024), make([]byte, 64)) }, 4},
			{"red", func() error {
				return p.ts[1].Red(c, p.at(1024), make([]byte, 64), transport.RedAdd, kernels.TypeUint64)
			}, 4},
			{"get", func() error { return p.ts[1].Get(c, make([]byte, 64), p.at(1024)) }, 64},
			{"atom", func() error {
				return p.ts[1].Atom(c, make([]byte, 8), p.at(1024), make([]byte, 8), transport.RedAdd, kernels.TypeUint64)
			}, 1},
			{"nothing", func() error { return nil }, 0},
		} {
			require.NoError(t, k.start(), k.name)
			require.NoError(t, c.Submit())
			require.NoError(t, c.ArriveExpect(k.want), k.name)
			require.False(t, c.Test(), k.name)
			require.NoError(t, c.Arrive())
			await(t, c.Test)
			_, err := c.Report()
			require.NoError(t, err)
		}
		require.NoError(t, p.ts[1].Put(c, p.at(1024), make([]byte, 64)))
		require.NoError(t, c.Submit())
		require.NoError(t, c.ArriveExpect(3))
		require.NoError(t, c.Arrive())
		for range 1000 {
			require.False(t, c.Test(), "one transaction is not expected")
		}
		require.Error(t, c.Free())
	})
}

// TestFastAllocatesNothing: without a fault plan, operations of the fast mode
// allocate nothing.
func TestFastAllocatesNothing(t *testing.T) {
	for name, one := range makers {
		t.Run(name, func(t *testing.T) {
			p := openPair(t, one, fabric.WithMode(fabric.ModeFast))
			src, dst, old := make([]byte, 1024), make([]byte, 1024), make([]byte, 8)
			at, c := p.at(1024), transport.Completion(p.c)
			allocs := testing.AllocsPerRun(200, func() {
				_ = p.ts[1].Put(c, at, src)
				_ = p.ts[1].PutCounted(c, at, src, 0)
				_ = p.ts[1].PutMasked(c, at, src, 0xff)
				_ = p.ts[1].Get(c, dst, at)
				_ = p.ts[1].Red(c, at, src, transport.RedMax, kernels.TypeUint64)
				_ = p.ts[1].Atom(c, old, at, src, transport.RedAdd, kernels.TypeUint64)
				_ = c.Submit()
				_ = c.Arrive()
				if !c.Test() {
					panic("not done")
				}
				if r, err := c.Report(); err != nil || !r.Clean() {
					panic("not clean")
				}
			})
			require.Zero(t, allocs)
		})
	}
}

// TestCloseEndsPhases: operations that were not executed fail when the fabric is
// closed, and nobody waits for them for ever.
func TestCloseEndsPhases(t *testing.T) {
	asynchronous(t, func(t *testing.T, p *pair) {
		p.dirty = true
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), filled(64, 5)))
		require.NoError(t, p.c.Submit())
		require.NoError(t, p.c.Arrive())
		_ = p.ts[1].Close() // in the strict mode an error: see TestRules
		require.True(t, p.c.Test())
		r, err := p.c.Report()
		require.NoError(t, err)
		require.False(t, r.Clean())
		require.Equal(t, []fabric.OpStatus{fabric.OpFailed}, fabric.Decode(r.Code))
		require.Zero(t, p.mem.Load(1024))
		require.NoError(t, p.own.Destroy())
		require.Empty(t, p.ts[0].Diagnostics(), "nothing is under way any more")
	})
}

func TestDecode(t *testing.T) {
	require.Empty(t, fabric.Decode(0))
	for n := range 16 {
		require.Len(t, fabric.Decode(uint8(n)<<4|1), n)
	}
	require.Equal(t, "failed", fabric.OpFailed.String())
	require.Equal(t, "success", fabric.OpSuccess.String())
}

// TestWholeWords: whoever polls a word that puts write sees no half of it.
func TestWholeWords(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode))
		stop := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			src := make([]byte, 32)
			for i := uint64(1); ; i++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				for o := 0; o < len(src); o += 8 {
					binary.NativeEndian.PutUint64(src[o:], i<<32|i)
				}
				if err := p.ts[1].Put(p.c, p.at(1024), src); err != nil {
					ended <- err
					return
				}
				p.finish()
			}
		}()
		var last uint64
		for i := 0; i < 20000 || last < 50<<32; i++ {
			v := p.mem.Load(1024)
			require.Equal(t, v>>32, v&(1<<32-1))
			last = v
		}
		close(stop)
		require.NoError(t, <-ended)
	})
}
