package fabric_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// diagnosed waits for what a rank's sanitizer found, and returns the first.
func diagnosed(t testing.TB, f *fabric.Transport) error {
	await(t, func() bool { return len(f.Diagnostics()) > 0 })
	return f.Diagnostics()[0]
}

// provocations break one rule each. They return the error, from whichever call or
// rank it comes.
var provocations = map[fabric.Rule][]provocation{
	fabric.RuleIDState: {
		{"not reserved", func(p *pair) error {
			return p.ts[0].CreateEndpoint(4711, fabric.Properties{Size: 4096})
		}},
		{"associated twice", func(p *pair) error {
			return p.ts[0].CreateEndpoint(p.own.ID(), fabric.Properties{Size: 4096})
		}},
		{"released while it names an endpoint", func(p *pair) error { return p.ts[1].ReleaseIDs(p.in.ID(), 1) }},
		{"released and not reserved", func(p *pair) error { return p.ts[1].ReleaseIDs(p.in.ID(), 3) }},
		{"too many", func(p *pair) error {
			_, err := p.ts[0].ReserveIDs(1 << 20)
			return err
		}},
	},
	fabric.RuleClique: {
		{"import", func(p *pair) error {
			f := p.third(fabric.WithClique(fabric.CliqueUnicast, 7))
			x, err := p.own.Export()
			require.NoError(p.t, err)
			defer x.Close()
			_, err = f.Import(x)
			return err
		}},
		{"in none", func(p *pair) error {
			f := p.third(fabric.WithoutClique(fabric.CliqueUnicast))
			x, err := p.own.Export()
			require.NoError(p.t, err)
			defer x.Close()
			_, err = f.Import(x)
			return err
		}},
		{"multicast", func(p *pair) error {
			f := p.third(fabric.WithClique(fabric.CliqueMulticast, 7))
			id, err := p.ts[0].ReserveIDs(1)
			require.NoError(p.t, err)
			require.NoError(p.t, p.ts[0].CreateEndpoint(id, fabric.Properties{Type: fabric.Multicast, Size: 4096, Members: 2}))
			x, err := p.ts[0].ExportEndpoint(id)
			require.NoError(p.t, err)
			defer x.Close()
			theirs, err := f.ReserveIDs(1)
			require.NoError(p.t, err)
			return f.ImportEndpoint(theirs, x)
		}},
	},
	fabric.RuleBeforeReady: {
		{"bind", func(p *pair) error {
			e, err := p.ts[0].Create(transport.EndpointConfig{Size: 4096})
			require.NoError(p.t, err)
			m, err := p.ts[0].Alloc(4096)
			require.NoError(p.t, err)
			defer m.Free()
			return e.Bind(0, m)
		}},
		{"use", func(p *pair) error {
			x, err := p.own.Export()
			require.NoError(p.t, err)
			defer x.Close()
			in, err := p.ts[1].Import(x)
			require.NoError(p.t, err)
			return p.ts[1].Put(p.c, transport.Handle{ID: in.ID()}, make([]byte, 16))
		}},
	},
	fabric.RuleBindAlign: {
		{"size", func(p *pair) error {
			_, err := p.ts[0].Create(transport.EndpointConfig{Size: 4097})
			return err
		}},
		{"offset", func(p *pair) error { return p.ts[0].BindMemory(p.own.ID(), 128, p.mem, 0, 256) }},
		{"offset in memory", func(p *pair) error { return p.ts[0].BindMemory(p.own.ID(), 0, p.mem, 8, 256) }},
		{"length", func(p *pair) error { return p.ts[0].BindMemory(p.own.ID(), 0, p.mem, 0, 264) }},
	},
	fabric.RuleBindRange: {
		{"over another", func(p *pair) error { return p.ts[0].BindMemory(p.own.ID(), 256, p.mem, 0, 256) }},
		{"outside", func(p *pair) error { return p.ts[0].BindMemory(p.own.ID(), pairBytes, p.mem, 0, 256) }},
		{"not in memory", func(p *pair) error {
			require.NoError(p.t, p.own.Unbind(0, pairBytes))
			return p.ts[0].BindMemory(p.own.ID(), 0, p.mem, 256, pairBytes)
		}},
		{"unbind", func(p *pair) error { return p.ts[0].UnbindRange(p.own.ID(), 0, 256) }},
		{"endpoint too large", func(p *pair) error {
			_, err := p.ts[0].Create(transport.EndpointConfig{Size: 1 << 44})
			return err
		}},
		{"too many", func(p *pair) error {
			require.NoError(p.t, p.own.Unbind(0, pairBytes))
			for i := range uint64(fabric.MaxBindings) {
				require.NoError(p.t, p.ts[0].BindMemory(p.own.ID(), 256*i, p.mem, 0, 256))
			}
			return p.ts[0].BindMemory(p.own.ID(), 256*fabric.MaxBindings, p.mem, 0, 256)
		}},
	},
	fabric.RuleBindImported: {
		{"bind", func(p *pair) error {
			m, err := p.ts[1].Alloc(4096)
			require.NoError(p.t, err)
			defer m.Free()
			return p.in.Bind(0, m)
		}},
		{"unbind", func(p *pair) error { return p.in.Unbind(0, pairBytes) }},
	},
	fabric.RuleFreedWhileBound: {{"free", func(p *pair) error { return p.mem.Free() }}},
	fabric.RuleUsedAfterFree: {
		{"view", func(p *pair) error {
			m := p.freed()
			_, err := p.ts[0].View(m)
			return err
		}},
		{"bind", func(p *pair) error {
			m := p.freed()
			require.NoError(p.t, p.own.Unbind(0, pairBytes))
			return p.own.Bind(0, m)
		}},
		{"read", func(p *pair) error { return p.freedView().Read(make([]byte, 16), 0) }},
		{"write", func(p *pair) error { return p.freedView().Write(0, make([]byte, 16)) }},
		{"counter", func(p *pair) error {
			_, err := p.freedView().Counter(0, 1)
			return err
		}},
		{"start on a completion", func(p *pair) error {
			require.NoError(p.t, p.c.Free())
			return p.ts[1].Put(p.c, p.at(1024), make([]byte, 16))
		}},
		{"submit a completion", func(p *pair) error {
			require.NoError(p.t, p.c.Free())
			return p.c.Submit()
		}},
		{"submit fetching", func(p *pair) error {
			require.NoError(p.t, p.c.Free())
			return p.c.SubmitFetching()
		}},
		{"arrive", func(p *pair) error {
			require.NoError(p.t, p.c.Free())
			return p.c.Arrive()
		}},
		{"raise", func(p *pair) error {
			require.NoError(p.t, p.c.Free())
			return p.c.Raise()
		}},
		{"report", func(p *pair) error {
			require.NoError(p.t, p.c.Arrive())
			require.True(p.t, p.c.Test())
			_, err := p.c.Report()
			require.NoError(p.t, err)
			require.NoError(p.t, p.c.Free())
			require.NoError(p.t, p.c.Free(), "again")
			require.False(p.t, p.c.Test())
			_, err = p.c.Report()
			return err
		}},
	},
	fabric.RuleUnboundInUse: {
		{"unbind", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(0), make([]byte, 64)))
			require.NoError(p.t, p.c.Submit())
			require.NoError(p.t, p.own.Unbind(0, pairBytes))
			return diagnosed(p.t, p.ts[0])
		}},
		{"destroy", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(0), make([]byte, 64)))
			require.NoError(p.t, p.c.Submit())
			require.NoError(p.t, p.own.Destroy())
			return diagnosed(p.t, p.ts[0])
		}},
	},
	fabric.RuleDestroyedInUse: {{"destroy", func(p *pair) error {
		require.NoError(p.t, p.ts[1].Put(p.c, p.at(0), make([]byte, 64)))
		require.NoError(p.t, p.c.Submit())
		require.NoError(p.t, p.in.Destroy())
		return diagnosed(p.t, p.ts[1])
	}}},
	fabric.RuleUnknown: {
		{"no such id", func(p *pair) error {
			return p.ts[1].Put(p.c, transport.Handle{ID: 4711}, make([]byte, 16))
		}},
		{"destroyed", func(p *pair) error {
			require.NoError(p.t, p.in.Destroy())
			return p.ts[1].Put(p.c, p.at(0), make([]byte, 16))
		}},
		{"nothing bound", func(p *pair) error {
			require.NoError(p.t, p.own.Unbind(0, pairBytes))
			return p.ts[1].Put(p.c, p.at(0), make([]byte, 16))
		}},
		{"destroyed by its owner", func(p *pair) error {
			require.NoError(p.t, p.own.Destroy())
			return p.ts[1].Get(p.c, make([]byte, 16), p.at(0))
		}},
	},
	fabric.RuleBounds: {
		{"beyond the end", func(p *pair) error { return p.ts[1].Put(p.c, p.at(pairBytes-16), make([]byte, 32)) }},
		{"in a hole", func(p *pair) error {
			require.NoError(p.t, p.own.Unbind(0, pairBytes))
			require.NoError(p.t, p.ts[0].BindMemory(p.own.ID(), 0, p.mem, 0, 256))
			return p.ts[1].Get(p.c, make([]byte, 32), p.at(240))
		}},
		{"short operand", func(p *pair) error {
			return p.ts[1].Atom(p.c, make([]byte, 8), p.at(0), make([]byte, 4), transport.RedAdd, kernels.TypeUint64)
		}},
	},
	fabric.RuleAlign: {
		{"offset", func(p *pair) error { return p.ts[1].Put(p.c, p.at(8), make([]byte, 16)) }},
		{"length", func(p *pair) error { return p.ts[1].Get(p.c, make([]byte, 17), p.at(0)) }},
		{"atom", func(p *pair) error {
			return p.ts[1].Atom(p.c, make([]byte, 8), p.at(4), make([]byte, 8), transport.RedAdd, kernels.TypeUint64)
		}},
	},
	fabric.RuleEndpointType: {
		{"multimem on a unicast endpoint", func(p *pair) error { return p.ts[1].PutMultimem(p.c, p.at(0), make([]byte, 16)) }},
		{"unicast on a multicast endpoint", func(p *pair) error {
			id := p.multicast(1)
			return p.ts[1].Put(p.c, transport.Handle{ID: id}, make([]byte, 16))
		}},
		{"device added to a unicast endpoint", func(p *pair) error { return p.ts[0].AddDevice(p.own.ID()) }},
	},
	fabric.RuleNotMember: {
		{"use", func(p *pair) error {
			id := p.multicast(0)
			return p.ts[1].PutMultimem(p.c, transport.Handle{ID: id}, make([]byte, 16))
		}},
		{"one too many", func(p *pair) error { return p.ts[1].AddDevice(p.multicast(0)) }},
		{"bind", func(p *pair) error {
			m, err := p.ts[1].Alloc(4096)
			require.NoError(p.t, err)
			defer m.Free()
			return p.ts[1].BindMemory(p.multicast(0), 0, m, 0, 4096)
		}},
	},
	fabric.RuleOwnerAccess: {{"put", func(p *pair) error {
		f := p.third(fabric.WithSupport(fabric.Support{Unicast: true}))
		m, err := f.Alloc(4096)
		require.NoError(p.t, err)
		e, err := f.Create(transport.EndpointConfig{Size: 4096})
		require.NoError(p.t, err)
		require.NoError(p.t, e.Ready(p.t.Context()))
		require.NoError(p.t, e.Bind(0, m))
		x, err := e.Export()
		require.NoError(p.t, err)
		defer x.Close()
		alias, err := f.Import(x) // no way around
		require.NoError(p.t, err)
		require.NoError(p.t, alias.Ready(p.t.Context()))
		c, err := f.NewCompletion(1)
		require.NoError(p.t, err)
		require.ErrorIs(p.t, f.Put(c, transport.Handle{ID: alias.ID()}, make([]byte, 16)), transport.ErrUnsupported)
		return f.Put(c, transport.Handle{ID: e.ID()}, make([]byte, 16))
	}}},
	fabric.RuleOperator: {
		{"red", func(p *pair) error {
			return p.ts[1].Red(p.c, p.at(0), make([]byte, 16), transport.RedMin, kernels.TypeFloat32)
		}},
		{"pullred", func(p *pair) error {
			return p.ts[1].PullRed(p.c, make([]byte, 16), p.at(0), transport.RedAdd, kernels.TypeFloat64)
		}},
		{"atom", func(p *pair) error {
			return p.ts[1].Atom(p.c, make([]byte, 8), p.at(0), make([]byte, 8), transport.RedMax, kernels.TypeFloat64)
		}},
	},
	fabric.RuleCountedFlag: {
		{"put", func(p *pair) error {
			m, err := p.ts[0].Alloc(4096)
			require.NoError(p.t, err)
			e, err := p.ts[0].Create(transport.EndpointConfig{Size: 4096})
			require.NoError(p.t, err)
			require.NoError(p.t, e.Ready(p.t.Context()))
			require.NoError(p.t, e.Bind(0, m))
			x, err := e.Export()
			require.NoError(p.t, err)
			defer x.Close()
			in, err := p.ts[1].Import(x)
			require.NoError(p.t, err)
			require.NoError(p.t, in.Ready(p.t.Context()))
			return p.ts[1].PutCounted(p.c, transport.Handle{ID: in.ID(), Offset: 1024}, make([]byte, 16), 0)
		}},
		{"device", func(p *pair) error {
			f := p.third(fabric.WithSupport(fabric.Support{Unicast: true}))
			_, err := f.Create(transport.EndpointConfig{Size: 4096, Counted: true})
			return err
		}},
	},
	fabric.RuleCounterAlign: {
		{"put", func(p *pair) error { return p.ts[1].PutCounted(p.c, p.at(1024), make([]byte, 16), 128) }},
		{"read", func(p *pair) error {
			_, err := p.view.Counter(128, 1)
			return err
		}},
	},
	fabric.RuleCounterShared: {
		{"own data", func(p *pair) error { return p.ts[1].PutCounted(p.c, p.at(1008), make([]byte, 32), 1024) }},
		{"data of another", func(p *pair) error {
			require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 32), 1024))
			return p.ts[1].Put(p.c, p.at(1024), make([]byte, 16))
		}},
		{"counter in another's data", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 16)))
			return p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 32), 1024)
		}},
		{"own data in the counter's line", func(p *pair) error {
			return p.ts[1].PutCounted(p.c, p.at(1024+240), make([]byte, 16), 1024)
		}},
		{"data of another in the counter's line", func(p *pair) error {
			require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 32), 1024))
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024+256), make([]byte, 16)))
			return p.ts[1].Red(p.c, p.at(1024+240), make([]byte, 16), transport.RedOr, kernels.TypeUint64)
		}},
		{"put over it from another completion", func(p *pair) error {
			require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 32), 1024))
			require.NoError(p.t, p.c.Submit())
			c, err := p.ts[1].NewCompletion(1)
			require.NoError(p.t, err)
			return p.ts[1].Put(c, p.at(1024), make([]byte, 16))
		}},
	},
	fabric.RuleCounterTarget: {{"read", func(p *pair) error {
		require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(1024), make([]byte, 32), 0))
		p.finish()
		_, err := p.view.Counter(0, 16)
		return err
	}}},
	fabric.RuleSourceChanged: {{"put", func(p *pair) error {
		src := make([]byte, 64)
		require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), src))
		require.NoError(p.t, p.c.Submit())
		p.steps()
		src[3]++
		require.NoError(p.t, p.c.Arrive())
		p.report()
		return diagnosed(p.t, p.ts[1])
	}}},
	fabric.RuleUnboundTarget: {{"put", func(p *pair) error {
		require.NoError(p.t, p.ts[1].Put(p.c, p.at(0), make([]byte, 64)))
		require.NoError(p.t, p.c.Submit())
		require.NoError(p.t, p.own.Unbind(0, pairBytes))
		p.steps()
		require.NoError(p.t, p.c.Arrive())
		require.False(p.t, p.report().Clean())
		return diagnosed(p.t, p.ts[1])
	}}},
	fabric.RuleArrivals: {
		{"512", func(p *pair) error {
			_, err := p.ts[1].NewCompletion(512)
			return err
		}},
		{"none", func(p *pair) error {
			_, err := p.ts[1].NewCompletion(0)
			return err
		}},
		{"v0", func(p *pair) error {
			_, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Layout: fabric.LayoutPlain, Arrivals: 1 << 20})
			return err
		}},
	},
	fabric.RuleTransactions: {
		{"operations", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Get(p.c, make([]byte, pairBytes), p.at(0)))
			for range transport.MaxTransactions/pairBytes - 1 {
				require.NoError(p.t, p.ts[1].Get(p.c, make([]byte, pairBytes), p.at(0)))
			}
			return p.ts[1].Get(p.c, make([]byte, pairBytes), p.at(0))
		}},
		{"expected", func(p *pair) error {
			c, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Arrivals: 2, Expect: true})
			require.NoError(p.t, err)
			require.NoError(p.t, c.ArriveExpect(transport.MaxTransactions))
			return c.ArriveExpect(1)
		}},
		{"not explicit", func(p *pair) error { return p.c.ArriveExpect(1) }},
	},
	fabric.RuleExpected: {{"too few", func(p *pair) error {
		c, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Arrivals: 1, Expect: true})
		require.NoError(p.t, err)
		require.NoError(p.t, p.ts[1].Put(c, p.at(1024), make([]byte, 64)))
		require.NoError(p.t, c.Submit())
		p.steps()
		require.NoError(p.t, c.ArriveExpect(64)) // bytes, where puts count units
		require.False(p.t, c.Test())
		return diagnosed(p.t, p.ts[1])
	}}},
	fabric.RuleLayout: {{"put", func(p *pair) error {
		c, err := p.ts[1].MakeCompletion(fabric.CompletionConfig{Layout: fabric.LayoutPlain, Arrivals: 1})
		require.NoError(p.t, err)
		return p.ts[1].Put(c, p.at(1024), make([]byte, 64))
	}}},
	fabric.RuleMixedReporters: {
		{"fabric first", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			return p.c.Raise()
		}},
		{"fabric second", func(p *pair) error {
			require.NoError(p.t, p.c.Raise())
			return p.ts[1].Put(p.c, p.at(1024), make([]byte, 64))
		}},
	},
	fabric.RuleNotSubmitted: {
		{"arrive", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			return p.c.Arrive()
		}},
		{"put not submitted by a submit of those that fetch", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			require.NoError(p.t, p.ts[1].Get(p.c, make([]byte, 64), p.at(2048)))
			require.NoError(p.t, p.c.SubmitFetching())
			return p.c.Arrive()
		}},
		{"free", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			return p.c.Free()
		}},
		{"close", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			return p.ts[1].Close()
		}},
	},
	fabric.RuleArriveBeforeWait: {
		{"arrive", func(p *pair) error {
			require.NoError(p.t, p.c.Arrive())
			return p.c.Arrive()
		}},
		{"operation", func(p *pair) error {
			require.NoError(p.t, p.c.Arrive())
			return p.ts[1].Put(p.c, p.at(1024), make([]byte, 64))
		}},
	},
	fabric.RuleReportBeforeDone: {
		{"no arrival", func(p *pair) error {
			_, err := p.c.Report()
			return err
		}},
		{"not executed", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			require.NoError(p.t, p.c.Submit())
			require.NoError(p.t, p.c.Arrive())
			_, err := p.c.Report()
			return err
		}},
	},
	fabric.RuleDropped: {
		{"free", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			require.NoError(p.t, p.c.Submit())
			return p.c.Free()
		}},
		{"close", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			require.NoError(p.t, p.c.Submit())
			p.steps()
			require.NoError(p.t, p.c.Arrive())
			return p.ts[1].Close()
		}},
	},
	fabric.RuleMissingAcquire: {
		{"put", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			p.finish()
			require.NoError(p.t, p.view.Read(make([]byte, 1024), 0), "beside it")
			return p.view.Read(make([]byte, 1), 1087)
		}},
		{"put after the fence", func(p *pair) error {
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(1024), make([]byte, 64)))
			p.finish()
			p.ts[0].Fence(transport.FenceAcquire)
			require.NoError(p.t, p.view.Read(make([]byte, 64), 1024))
			require.NoError(p.t, p.ts[1].Red(p.c, p.at(1024), make([]byte, 16), transport.RedAdd, kernels.TypeUint64))
			p.finish()
			require.NoError(p.t, p.view.Read(make([]byte, 48), 1040))
			return p.view.Read(make([]byte, 64), 1024)
		}},
	},
	fabric.RuleMissingRelease: {
		{"counter", func(p *pair) error {
			require.NoError(p.t, p.view.Write(0, make([]byte, 8)))
			p.ts[0].Fence(transport.FenceRelease)
			require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 64), 0))
			p.finish()
			require.Empty(p.t, p.ts[1].Diagnostics())
			require.NoError(p.t, p.view.Write(0, make([]byte, 8)))
			require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 64), 0))
			p.finish()
			return diagnosed(p.t, p.ts[1])
		}},
		{"stored at a peer", func(p *pair) error {
			a := p.reach()
			require.NoError(p.t, a.Store(2048, make([]byte, 64)))
			require.NoError(p.t, a.Count(1024, 64))
			require.NoError(p.t, p.ts[1].Put(p.c, p.at(2112), make([]byte, 64)), "beside it")
			p.finish()
			p.ts[1].Fence(transport.FenceRelease)
			require.NoError(p.t, p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 64), 1024))
			p.finish()
			require.NoError(p.t, a.Raise(4096, 1))
			p.ts[1].Fence(transport.FenceAcquire)
			return p.ts[1].Red(p.c, p.at(4096), make([]byte, 16), transport.RedMax, kernels.TypeUint64)
		}},
		{"counted at a peer", func(p *pair) error {
			require.NoError(p.t, p.reach().Count(1024, 64))
			return p.ts[1].PutCounted(p.c, p.at(2048), make([]byte, 64), 1024)
		}},
		{"get", func(p *pair) error {
			require.NoError(p.t, p.view.Write(2048, make([]byte, 100)))
			require.NoError(p.t, p.ts[1].Get(p.c, make([]byte, 64), p.at(2048)))
			p.finish()
			return diagnosed(p.t, p.ts[1])
		}},
		{"red", func(p *pair) error {
			require.NoError(p.t, p.view.Write(2048, make([]byte, 100)))
			p.ts[0].Fence(transport.FenceRelease)
			require.NoError(p.t, p.ts[1].Red(p.c, p.at(2048), make([]byte, 64), transport.RedOr, kernels.TypeUint64))
			p.finish()
			require.Empty(p.t, p.ts[1].Diagnostics())
			require.NoError(p.t, p.view.Write(2048+99, make([]byte, 1)))
			require.NoError(p.t, p.ts[1].Red(p.c, p.at(2048), make([]byte, 112), transport.RedOr, kernels.TypeUint64))
			p.finish()
			return diagnosed(p.t, p.ts[1])
		}},
	},
}

type provocation struct {
	name string
	do   func(p *pair) error
}

// freed is memory of rank 0 that was freed, twice, which is harmless.
func (p *pair) freed() transport.Memory {
	m, err := p.ts[0].Alloc(pairBytes)
	require.NoError(p.t, err)
	require.NoError(p.t, m.Free())
	require.NoError(p.t, m.Free())
	return m
}

func (p *pair) freedView() fabric.View {
	m, err := p.ts[0].Alloc(pairBytes)
	require.NoError(p.t, err)
	v, err := p.ts[0].View(m)
	require.NoError(p.t, err)
	require.NoError(p.t, m.Free())
	return v
}

// steps executes all that rank 1 has submitted.
func (p *pair) steps() {
	for p.ts[1].Step() {
	}
}

// third makes another rank.
func (p *pair) third(opts ...fabric.Option) *fabric.Transport {
	f, err := p.make(append(opts, fabric.WithMode(p.ts[0].Mode()), fabric.WithRank(2), fabric.WithFaults(""))...)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { f.Close() })
	return f
}

// multicast makes a multicast endpoint with one rank as its only member, and
// returns rank 1's id of it.
func (p *pair) multicast(member int) transport.EndpointID {
	var ids [2]transport.EndpointID
	for r, f := range p.ts {
		id, err := f.ReserveIDs(1)
		require.NoError(p.t, err)
		ids[r] = id
	}
	require.NoError(p.t, p.ts[0].CreateEndpoint(ids[0], fabric.Properties{Type: fabric.Multicast, Size: 4096, Members: 1}))
	x, err := p.ts[0].ExportEndpoint(ids[0])
	require.NoError(p.t, err)
	defer x.Close()
	require.NoError(p.t, p.ts[1].ImportEndpoint(ids[1], x))
	require.NoError(p.t, p.ts[member].AddDevice(ids[member]))
	for r := range p.ts {
		if r == 0 && member == 1 {
			y, err := p.ts[1].ExportDevice()
			require.NoError(p.t, err)
			require.NoError(p.t, p.ts[0].ImportDevice(y))
			y.Close()
		}
		await(p.t, func() bool {
			ok, err := p.ts[r].Query(ids[r])
			require.NoError(p.t, err)
			return ok
		})
	}
	m, err := p.ts[member].Alloc(4096)
	require.NoError(p.t, err)
	require.NoError(p.t, p.ts[member].BindMemory(ids[member], 0, m, 0, 4096))
	return ids[1]
}

// TestRules provokes every rule in the strict mode, and those that are not for it
// alone in every mode.
func TestRules(t *testing.T) {
	for _, rule := range fabric.Rules() {
		require.NotEmpty(t, provocations[rule], "%v is never provoked", rule)
		require.NotEmpty(t, rule.Section(), "%v", rule)
		for _, mode := range modes {
			if rule.Strict() && mode != fabric.ModeStrict {
				continue
			}
			for kind, one := range makers {
				for _, c := range provocations[rule] {
					if mode == fabric.ModeFast && (rule == fabric.RuleUnboundTarget || c.name == "not executed") {
						continue // inline, nothing comes between
					}
					partly := map[fabric.Rule]string{fabric.RuleCounterShared: "own data", fabric.RuleNotSubmitted: "free", fabric.RuleDropped: "free"}
					if always, ok := partly[rule]; mode != fabric.ModeStrict && (rule == fabric.RuleUnboundTarget || ok && c.name != always) {
						continue // found by the strict mode only
					}
					t.Run(fmt.Sprintf("%v/%s/%v/%s", rule, c.name, mode, kind), func(t *testing.T) {
						p := openPair(t, one, fabric.WithMode(mode), withStepsIf(mode != fabric.ModeFast && (c.name == "not executed" ||
							rule == fabric.RuleUnboundInUse || rule == fabric.RuleDestroyedInUse || rule == fabric.RuleUnboundTarget)))
						p.dirty, p.make = true, one
						err := c.do(p)
						var broken *fabric.RuleError
						require.ErrorAs(t, err, &broken)
						require.Equal(t, rule, broken.Rule, "%v", err)
						require.Contains(t, err.Error(), rule.String())
						require.NotNil(t, errors.Unwrap(broken), "%v is none of the contract's errors", err)
						require.Contains(t, []int{0, 1, 2}, broken.Rank)
						if rule == fabric.RuleUnboundInUse || rule == fabric.RuleMissingAcquire || rule == fabric.RuleMissingRelease {
							require.Equal(t, 1, broken.Rank+broken.Peer, "both sides: %v", err)
						}
						require.NotEqual(t, broken.Rank, broken.Peer)
					})
				}
			}
		}
	}
}

// TestDiagnostics: what no call can return goes to a callback, to a list, and to
// the first Close.
func TestDiagnostics(t *testing.T) {
	var told []error
	p := openPair(t, fabric.NewLocal, fabric.WithMode(fabric.ModeStrict), fabric.WithDiagnostics(func(err error) { told = append(told, err) }))
	src := make([]byte, 64)
	for range 3 {
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), src))
		src[0]++
		p.finish()
	}
	require.Len(t, told, 3)
	require.Equal(t, told, p.ts[1].Diagnostics())
	err := p.ts[1].Close()
	for _, e := range told {
		require.ErrorIs(t, err, e)
	}
	require.NoError(t, p.ts[1].Close(), "again")
}

// TestView refuses what is outside the memory, or of another rank.
func TestView(t *testing.T) {
	p := openPair(t, fabric.NewLocal)
	_, err := p.ts[1].View(p.mem)
	require.ErrorIs(t, err, transport.ErrUnsupported)
	_, err = p.ts[1].View(nil)
	require.ErrorIs(t, err, transport.ErrUnsupported)
	for _, v := range []fabric.View{p.view, {}} {
		require.ErrorIs(t, v.Read(make([]byte, 16), pairBytes-8), transport.ErrBounds)
		require.ErrorIs(t, v.Write(1<<64-8, make([]byte, 16)), transport.ErrBounds)
		_, err = v.Counter(pairBytes, 1)
		require.ErrorIs(t, err, transport.ErrBounds)
	}
	require.NoError(t, p.view.Write(256, []byte{7, 0, 0, 0, 0, 0, 0, 0}))
	got := make([]byte, 8)
	require.NoError(t, p.view.Read(got, 256))
	require.Equal(t, []byte{7, 0, 0, 0, 0, 0, 0, 0}, got)
	for _, c := range []struct {
		target  uint64
		reached bool
	}{{p.mem.Load(256) + 1, false}, {p.mem.Load(256), true}, {p.mem.Load(256) - 1, true}} {
		reached, err := p.view.Counter(256, c.target)
		require.NoError(t, err, "only the strict mode minds")
		require.Equal(t, c.reached, reached)
	}
}

func withStepsIf(so bool) fabric.Option {
	if so {
		return fabric.WithSteps()
	}
	return fabric.WithSeed(1)
}
