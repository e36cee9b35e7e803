package transporttest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// A multigroup is a group with one multicast endpoint; rank r knows it as all[r].
type multigroup struct {
	group
	all []transport.Endpoint
}

// openMulticast skips the test if there is no multicast.
func openMulticast(t *testing.T, open New, n int, cfg transport.EndpointConfig) *multigroup {
	m := &multigroup{group: group{t: t, ts: openAll(t, open, n)}, all: make([]transport.Endpoint, n)}
	x := newExchanger(n)
	errs := make([]error, n)
	for _, tr := range m.ts {
		m.mem = append(m.mem, alloc(t, tr, cfg.Size))
		m.want = append(m.want, make([]byte, cfg.Size))
		c, err := tr.NewCompletion(1)
		require.NoError(t, err)
		m.done = append(m.done, c)
	}
	inParallel(n, func(r int) {
		if m.all[r], errs[r] = m.ts[r].JoinMulticast(t.Context(), cfg, r, n, m.mem[r], x.as(r)); errs[r] == nil {
			errs[r] = m.all[r].Ready(t.Context())
		}
	})
	if !m.ts[0].Limits().Multicast {
		for _, err := range errs {
			require.ErrorIs(t, err, transport.ErrUnsupported)
		}
		t.Skip("no multicast")
	}
	require.NoError(t, errors.Join(errs...))
	for _, e := range m.all {
		require.Equal(t, cfg.Size, e.Size())
	}
	return m
}

func checkMulticast(t *testing.T, open New) {
	for n := 2; n <= 5; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) { checkMulticastOf(t, open, n) })
	}
}

func checkMulticastOf(t *testing.T, open New, n int) {
	rng := random(t)
	m := openMulticast(t, open, n, area)
	for from := range n {
		h := func(off uint64) transport.Handle { return transport.Handle{ID: m.all[from].ID(), Offset: off} }
		tr := m.ts[from]
		for _, size := range few {
			m.scramble(rng)
			for r := range n {
				clear(m.want[r][:dataAt])
				clear(m.mem[r].Bytes()[:dataAt])
			}
			src := unaligned(size)
			fill(rng, src)
			m.phase(from, func(c transport.Completion) error { return tr.PutMultimem(c, h(dataAt), src) })
			for r := range n {
				copy(m.want[r][dataAt:], src)
			}
			m.check("put-multimem of %d bytes by %d", size, from)

			fill(rng, src)
			m.phase(from, func(c transport.Completion) error { return tr.PutCountedMultimem(c, h(8192), src, counterAt) })
			for r := range n {
				copy(m.want[r][8192:], src)
				m.counted(r, counterAt, size)
			}
			m.check("counted put-multimem of %d bytes by %d", size, from)
		}
	}
	for from := range n {
		id := m.all[from].ID()
		at := transport.Handle{ID: id, Offset: 64}
		red := func(c transport.Completion, src []byte, op transport.RedOp, typ kernels.Type) error {
			return m.ts[from].RedMultimem(c, at, src, op, typ)
		}
		pull := func(c transport.Completion, dst []byte, op transport.RedOp, typ kernels.Type) error {
			return m.ts[from].PullRed(c, dst, at, op, typ)
		}
		set := func(typ kernels.Type, size int) {
			for r := range n {
				elements(rng, m.want[r][at.Offset:][:size], typ)
				copy(m.mem[r].Bytes(), m.want[r][:int(at.Offset)+size])
				m.ts[r].Fence(transport.FenceRelease)
			}
		}
		if from > 0 { // all operators once, the others a few: this is n times n
			for range 4 {
				set(kernels.TypeUint64, 1008)
				got := unaligned(1008)
				m.phase(from, func(c transport.Completion) error { return pull(c, got, transport.RedAdd, kernels.TypeUint64) })
				require.Equal(t, m.pulled(at.Offset, 1008, transport.RedAdd, kernels.TypeUint64), got)
			}
			continue
		}
		eachRed(t, &m.group, red, transport.RedSupports, func(op transport.RedOp, typ kernels.Type) {
			for _, size := range few {
				set(typ, size)
				src := unaligned(size)
				elements(rng, src, typ)
				m.phase(from, func(c transport.Completion) error { return red(c, src, op, typ) })
				for r := range n {
					combine(m.want[r][at.Offset:], src, op, typ)
				}
				m.check("red-multimem %v on %d bytes of %v", op, size, typ)
			}
		})
		eachRed(t, &m.group, pull, transport.PullRedSupports, func(op transport.RedOp, typ kernels.Type) {
			for i, size := range few {
				set(typ, size)
				got := make([]byte, size+32)
				at := 16 + i%3 // aligned or not
				want := append([]byte(nil), got...)
				copy(want[at:], m.pulled(64, size, op, typ))
				m.phase(from, func(c transport.Completion) error { return pull(c, got[at:at+size], op, typ) })
				require.Equal(t, want, got, "pullred %v on %d bytes of %v", op, size, typ)
				m.check("after pullred")
			}
		})
		local := make([]byte, 16)
		require.ErrorIs(t, m.ts[from].Atom(m.done[from], local, at, local, transport.RedAdd, kernels.TypeUint64), transport.ErrUnsupported)
		_, err := m.all[from].Export()
		require.Error(t, err, "multicast endpoints are joined, not imported")
	}
	for r := range n {
		require.NoError(t, m.all[r].Destroy())
		require.NoError(t, m.all[r].Destroy(), "again")
		require.ErrorIs(t, m.ts[r].PutMultimem(m.done[r], transport.Handle{ID: m.all[r].ID()}, make([]byte, 16)), transport.ErrUnknownEndpoint)
	}
}

// pulled is the reduction of a range of all replicas.
func (m *multigroup) pulled(off uint64, n int, op transport.RedOp, typ kernels.Type) []byte {
	v := append([]byte(nil), m.want[0][off:][:n]...)
	for _, w := range m.want[1:] {
		combine(v, w[off:][:n], op, typ)
	}
	return v
}

// checkMulticastFailure wants every member to return, whatever one of them does.
func checkMulticastFailure(t *testing.T, open New) {
	const n = 3
	ts := openAll(t, open, n)
	if !ts[0].Limits().Multicast {
		t.Skip("no multicast")
	}
	good := transport.EndpointConfig{Size: 4096}
	mem := make([]transport.Memory, n)
	for r, tr := range ts {
		mem[r] = alloc(t, tr, good.Size)
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		name string
		join func(r int, x transport.Exchange) (transport.Endpoint, error)
		all  bool // all members get an error
	}{
		{"memory of no transport", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			if r == 1 {
				return ts[r].JoinMulticast(t.Context(), good, r, n, nil, x)
			}
			return ts[r].JoinMulticast(t.Context(), good, r, n, mem[r], x)
		}, true},
		{"memory too small", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			cfg := transport.EndpointConfig{Size: 1 << 20}
			return ts[r].JoinMulticast(t.Context(), cfg, r, n, mem[r], x)
		}, true},
		{"another size", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			cfg := good
			if r == 2 {
				cfg.Size = 2048
			}
			return ts[r].JoinMulticast(t.Context(), cfg, r, n, mem[r], x)
		}, true},
		{"a size that can't be", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			cfg := good
			if r == 2 {
				cfg.Size = 0
			}
			return ts[r].JoinMulticast(t.Context(), cfg, r, n, mem[r], x)
		}, true},
		{"no such member", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			for _, me := range []int{-1, n} {
				_, err := ts[r].JoinMulticast(t.Context(), good, me, n, mem[r], x)
				require.ErrorIs(t, err, transport.ErrBounds)
			}
			return ts[r].JoinMulticast(t.Context(), good, 0, 0, mem[r], x)
		}, true},
		{"exchange fails", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			calls := 0
			return ts[r].JoinMulticast(t.Context(), good, r, n, mem[r], func(context.Context, transport.Exported) ([]transport.Exported, error) {
				if calls++; calls > 1 {
					t.Errorf("member %d goes on after an exchange that failed", r)
				}
				return nil, boom
			})
		}, true},
		{"exchange of too few", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			return ts[r].JoinMulticast(t.Context(), good, r, n, mem[r], func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
				all, err := x(ctx, mine)
				if err == nil {
					all[n-1].Close()
					all = all[:n-1]
				}
				return all, err
			})
		}, true},
		{"exchange of too many", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			return ts[r].JoinMulticast(t.Context(), good, r, n, mem[r], func(ctx context.Context, mine transport.Exported) ([]transport.Exported, error) {
				all, err := x(ctx, mine)
				return append(all, transport.Exported{}), err
			})
		}, true},
		{"all is well", func(r int, x transport.Exchange) (transport.Endpoint, error) {
			return ts[r].JoinMulticast(t.Context(), good, r, n, mem[r], x)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newExchanger(n)
			start := time.Now()
			errs, ends := make([]error, n), make([]transport.Endpoint, n)
			inParallel(n, func(r int) {
				e, err := c.join(r, x.as(r))
				errs[r] = err
				if e != nil { // with an error as well
					ends[r] = e
				}
			})
			require.Less(t, time.Since(start), patience)
			for r, err := range errs {
				if ends[r] != nil {
					require.NoError(t, ends[r].Destroy(), "member %d", r)
				}
				if c.all {
					require.Error(t, err, "member %d", r)
					require.NotErrorIs(t, err, errNobody, "member %d", r)
				} else {
					require.NoError(t, err, "member %d", r)
				}
			}
		})
	}
}
