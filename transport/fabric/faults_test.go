package fabric_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// pieceOf is the size of the pieces into which the fabric cuts n bytes.
func pieceOf(n int) int { return (n/16 + 7) / 8 * 16 }

// recorder keeps what a decider decides.
type recorder struct {
	mu   sync.Mutex
	recs []faults.Record
}

func (r *recorder) add(rec faults.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recs = append(r.recs, rec)
}

func (r *recorder) take() []faults.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	recs := r.recs
	r.recs = nil
	return recs
}

func injector(t testing.TB, plan string) *faults.Injector {
	p, err := faults.Parse(plan)
	require.NoError(t, err)
	in, err := faults.New(p)
	require.NoError(t, err)
	return in
}

// carriedOut ends a phase and executes no step more than that takes.
func (p *pair) carriedOut(mode fabric.Mode) transport.Report {
	require.NoError(p.t, p.c.Submit())
	require.NoError(p.t, p.c.Arrive())
	for !p.c.Test() {
		require.True(p.t, mode == fabric.ModeFast || p.ts[1].Step())
	}
	return p.report()
}

// TestFaultKinds: of every operation and under every kind of fault, what is
// executed before the report and what later is what the fault says, and the
// report says nothing of it.
func TestFaultKinds(t *testing.T) {
	const n = 1024
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		for _, kind := range []faults.Kind{faults.Drop, faults.Ack, faults.Part, faults.Late} {
			t.Run(kind.String(), func(t *testing.T) {
				rec := &recorder{}
				in := injector(t, fmt.Sprintf("seed=%d,rate=1,kinds=%v,links=1>0", rand.Uint64(), kind))
				opts := []fabric.Option{fabric.WithMode(mode), fabric.WithDecider(faults.NewRecorder(in, rec.add))}
				if mode != fabric.ModeFast {
					opts = append(opts, fabric.WithSteps()) // so that late pieces wait for Drain
				}
				p := openPair(t, one, opts...)
				mem := p.mem.Bytes()
				for round := range 30 {
					for _, k := range []struct {
						name  string
						start func(src []byte) error
						at    func() []byte // what changes
						want  byte          // to what
						count int           // what it adds to the counter per byte
					}{
						{"put", func(src []byte) error { return p.ts[1].Put(p.c, p.at(1024), src) }, nil, 1, 0},
						{"counted", func(src []byte) error { return p.ts[1].PutCounted(p.c, p.at(1024), src, 0) }, nil, 1, 1},
						{"red", func(src []byte) error {
							return p.ts[1].Red(p.c, p.at(1024), src, transport.RedXor, kernels.TypeUint64)
						}, nil, 1, 0},
						{"counted red", func(src []byte) error {
							return p.ts[1].RedCounted(p.c, p.at(1024), src, transport.RedAdd, kernels.TypeUint32, 0)
						}, nil, 1, 1},
					} {
						clear(mem[:1024+n])
						p.ts[0].Fence(transport.FenceRelease)
						src := filled(n, k.want)
						require.NoError(t, k.start(src))
						r := p.carriedOut(mode)
						require.False(t, r.Clean())
						require.Equal(t, transport.Report{Status: transport.StatusFailed, Errors: 1, Code: 0x11}, r, "it says nothing more")
						clear(src) // the phase is over: what is late must not see it
						recs := rec.take()
						require.Len(t, recs, 1)
						f := recs[0].Fault
						require.Equal(t, kind, f.Kind)
						check := func(executed func(d faults.Delay) bool, when string) {
							counted := 0
							for i := range 8 {
								want := byte(0)
								if executed(f.When(i, 8)) {
									want = k.want
									counted += pieceOf(n) * k.count
								}
								require.Equal(t, filled(pieceOf(n), want), mem[1024+i*pieceOf(n):][:pieceOf(n)], "%s %s, round %d, piece %d, %+v", k.name, when, round, i, f)
							}
							require.EqualValues(t, counted, p.mem.Load(0))
						}
						if mode != fabric.ModeFast { // there the clock runs as well
							check(func(d faults.Delay) bool { return d == faults.Now }, "at the report")
						}
						p.ts[1].Drain()
						require.Zero(t, p.ts[1].Late())
						check(func(d faults.Delay) bool { return d != faults.Never }, "in the end")
					}
				}
			})
		}
	})
}

// TestFaultNumbers: pieces are numbered through all operations of a phase, in the
// order of their start, and an operation on another link is not among them.
func TestFaultNumbers(t *testing.T) {
	asynchronousFaulty(t, "rate=1,kinds=part,links=1>0", func(t *testing.T, p *pair, rec *recorder) {
		m, err := p.ts[1].Alloc(4096)
		require.NoError(t, err)
		mine, err := p.ts[1].Create(transport.EndpointConfig{Size: 4096})
		require.NoError(t, err)
		require.NoError(t, mine.Ready(t.Context()))
		require.NoError(t, mine.Bind(0, m))
		lengths := []int{1024, 256, 16}
		for round := range 50 {
			clear(p.mem.Bytes())
			clear(m.Bytes())
			at := uint64(4096)
			for i, n := range lengths {
				require.NoError(t, p.ts[1].Put(p.c, p.at(at), filled(n, byte(i+1))))
				require.NoError(t, p.ts[1].Put(p.c, transport.Handle{ID: mine.ID(), Offset: 512 * uint64(i)}, filled(64, byte(i+1))))
				at += 4096
			}
			require.False(t, p.carriedOut(fabric.ModeDefault).Clean())
			recs := rec.take()
			require.Len(t, recs, 1)
			require.EqualValues(t, round, recs[0].Phase)
			piece := 0
			for i, n := range lengths {
				for o := 0; o < n; o += pieceOf(n) {
					want := byte(0)
					if recs[0].Fault.When(piece, 17) == faults.Now {
						want = byte(i + 1)
					}
					require.Equal(t, filled(pieceOf(n), want), p.mem.Bytes()[4096*(i+1)+o:][:pieceOf(n)], "piece %d", piece)
					piece++
				}
				require.Equal(t, filled(64, byte(i+1)), m.Bytes()[512*i:][:64], "no fault on one's own link")
			}
			require.Equal(t, 17, piece)
		}
		require.NoError(t, mine.Destroy())
		require.NoError(t, m.Free())
	})
}

// TestFaultOfPhase: the first submit of a phase decides for all of it, and the next
// phase is another.
func TestFaultOfPhase(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode), fabric.WithFaults("rate=1,kinds=drop,links=1>0,to=1"))
		for phase := range 3 {
			for i := range uint64(3) {
				require.NoError(t, p.ts[1].PutMasked(p.c, p.at(1024+64*i), filled(64, byte(phase+1)), 0x00ff))
				require.NoError(t, p.c.Submit())
			}
			require.Equal(t, phase > 0, p.finish().Clean())
			want := filled(192, 0)
			for i := range want {
				if phase > 0 && i%16 < 8 {
					want[i] = byte(phase + 1)
				}
			}
			require.Equal(t, want, p.mem.Bytes()[1024:][:192])
		}
	})
}

// TestLateFetch: what a get fetches late lands in its destination long after the
// report.
func TestLateFetch(t *testing.T) {
	asynchronousFaulty(t, "rate=1,kinds=late,links=1>0", func(t *testing.T, p *pair, rec *recorder) {
		const n = 1024
		copy(p.mem.Bytes()[1024:], filled(n, 9))
		got := make([]byte, n)
		require.NoError(t, p.ts[1].Get(p.c, got, p.at(1024)))
		require.False(t, p.carriedOut(fabric.ModeDefault).Clean())
		f := rec.take()[0].Fault
		want := make([]byte, n)
		for i := range 8 {
			if f.When(i, 8) == faults.Now {
				copy(want[i*pieceOf(n):], filled(pieceOf(n), 9))
			}
		}
		require.Equal(t, want, got)
		require.NotEqual(t, filled(n, 9), got)
		p.ts[1].Drain()
		require.Equal(t, filled(n, 9), got)
	})
}

func asynchronousFaulty(t *testing.T, plan string, f func(t *testing.T, p *pair, rec *recorder)) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		if mode == fabric.ModeFast {
			return
		}
		rec := &recorder{}
		in := injector(t, fmt.Sprintf("seed=%d,%s", rand.Uint64(), plan))
		f(t, openPair(t, one, fabric.WithMode(mode), fabric.WithSteps(), fabric.WithDecider(faults.NewRecorder(in, rec.add))), rec)
	})
}

// TestLateSteps: late pieces come when their steps have passed, also while other
// operations are executed.
func TestLateSteps(t *testing.T) {
	asynchronousFaulty(t, "rate=1,kinds=late,links=1>0,to=1", func(t *testing.T, p *pair, rec *recorder) {
		const n = 1024
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), filled(n, 1)))
		p.carriedOut(fabric.ModeDefault)
		f := rec.take()[0].Fault
		for step := faults.Delay(1); step < 200; step++ {
			if step%2 == 0 { // another operation's piece passes, or only time
				require.NoError(t, p.ts[1].Put(p.c, p.at(32<<10), filled(16, 1)))
				require.NoError(t, p.c.Submit())
				require.NoError(t, p.c.Arrive())
			}
			p.ts[1].Step()
			if step%2 == 0 {
				require.True(t, p.report().Clean())
			}
			for i := range 8 {
				want := byte(0)
				if f.When(i, 8) <= step {
					want = 1
				}
				require.Equal(t, want, p.mem.Bytes()[1024+i*pieceOf(n)], "step %d, piece %d of %+v", step, i, f)
			}
		}
	})
}

// TestLateInTime: late pieces come without anybody's doing, in every mode.
func TestLateInTime(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode), fabric.WithFaults("seed=3,rate=1,kinds=late,links=1>0,to=40"))
		for i := range uint64(40) {
			require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024+64*i), filled(64, 1), 0))
			require.False(t, p.finish().Clean())
		}
		// Of all pieces half come within three steps of 2 ms.
		await(t, func() bool { return p.mem.Load(0) > 40*64/2 })
		p.ts[1].Drain()
		require.EqualValues(t, 40*64, p.mem.Load(0))
		require.Equal(t, filled(40*64, 1), p.mem.Bytes()[1024:][:40*64])
	})
}

// TestDeadLink: from its phase on nothing passes, and the other way everything.
func TestDeadLink(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode), fabric.WithFaults("dead=1>0@5"))
		for i := range uint64(20) {
			require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024), filled(64, byte(i+1)), 0))
			require.Equal(t, i < 5, p.finish().Clean())
			require.EqualValues(t, 64*min(i+1, 5), p.mem.Load(0))
		}
		require.Equal(t, filled(64, 5), p.mem.Bytes()[1024:][:64])
		// An owner's own link is another.
		c, err := p.ts[0].NewCompletion(1)
		require.NoError(t, err)
		require.NoError(t, p.ts[0].Put(c, transport.Handle{ID: p.own.ID(), Offset: 2048}, filled(64, 8)))
		p.c = c.(*fabric.Completion)
		require.True(t, p.finish().Clean())
	})
}

// TestMulticastLink: phases on multicast endpoints are on a link of their own.
func TestMulticastLink(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		p := openPair(t, one, fabric.WithMode(mode), fabric.WithFaults("rate=1,kinds=part,links=1>m,seed=11"))
		var id [2]transport.EndpointID
		var mem [2]transport.Memory
		p.group(&id, &mem)
		require.NoError(t, p.ts[1].Put(p.c, p.at(1024), filled(64, 1)))
		require.True(t, p.finish().Clean())
		differ := false
		for round := range byte(20) {
			require.NoError(t, p.ts[1].PutMultimem(p.c, transport.Handle{ID: id[1], Offset: 1024}, filled(64, round+1)))
			require.False(t, p.finish().Clean())
			differ = differ || !bytes.Equal(mem[0].Bytes(), mem[1].Bytes())
		}
		require.True(t, differ, "replicas lose different pieces")
		// A phase on both links: one report for both.
		require.NoError(t, p.ts[1].PutMultimem(p.c, transport.Handle{ID: id[1], Offset: 2048}, filled(64, 1)))
		require.NoError(t, p.ts[1].Put(p.c, p.at(4096), filled(64, 7)))
		require.False(t, p.finish().Clean())
		require.Equal(t, filled(64, 7), p.mem.Bytes()[4096:][:64])
	})
}

// TestReproducible: the same program under the same plan meets the same faults,
// and so it does under a replay of its log. What memory holds in the end is the
// same as well.
func TestReproducible(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		plan := injector(t, "seed=99,rate=0.3,kinds=drop+ack+part,links=1>0,burst=2")
		run := func(d faults.Decider) (string, []byte, []bool) {
			var text bytes.Buffer
			log := faults.NewLog(&text)
			p := openPair(t, one, fabric.WithMode(mode), fabric.WithDecider(faults.NewRecorder(d, log.Add)))
			var clean []bool
			for i := range uint64(200) {
				src := make([]byte, 256)
				for o := range src {
					src[o] = byte(i + 1)
				}
				require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024+i%50*256), src, 0))
				if i%3 == 0 {
					require.NoError(t, p.ts[1].Red(p.c, p.at(32<<10), src, transport.RedAdd, kernels.TypeUint64))
				}
				clean = append(clean, p.finish().Clean())
			}
			require.NoError(t, log.Err())
			return text.String(), append([]byte(nil), p.mem.Bytes()...), clean
		}
		log, mem, clean := run(plan)
		require.NotEmpty(t, log)
		for _, again := range []faults.Decider{plan, blind{plan}} {
			log2, mem2, clean2 := run(again)
			require.Equal(t, log, log2)
			require.True(t, bytes.Equal(mem, mem2))
			require.Equal(t, clean, clean2)
		}
		recs, err := faults.ReadLog(bytes.NewReader([]byte(log)))
		require.NoError(t, err)
		replay, err := faults.NewReplay(recs)
		require.NoError(t, err)
		log3, mem3, clean3 := run(replay)
		require.Equal(t, log, log3)
		require.True(t, bytes.Equal(mem, mem3))
		require.Equal(t, clean, clean3)
	})
}

// blind is a decider that does not know beforehand.
type blind struct{ faults.Decider }

// TestNumbersAtOnce: goroutines that start phases at the same time meet the faults
// that the phases of these numbers have, no more and no fewer.
func TestNumbersAtOnce(t *testing.T) {
	const goroutines, phases = 4, 500
	plan := injector(t, "seed=5,rate=0.2,kinds=drop+ack")
	var want int
	for i := range uint64(goroutines * phases) {
		if plan.Decide(faults.Link{From: 1, To: 0}, 0, i, faults.Ops(transport.OpPut)).Reported() {
			want++
		}
	}
	p := openPair(t, fabric.NewLocal, fabric.WithMode(fabric.ModeFast), fabric.WithDecider(plan))
	var reported [goroutines]int
	var wg sync.WaitGroup
	for g := range goroutines {
		c, err := p.ts[1].NewCompletion(1)
		require.NoError(t, err)
		wg.Go(func() {
			for range phases {
				assert.NoError(t, p.ts[1].Put(c, p.at(1024+64*uint64(g)), filled(64, byte(g))))
				assert.NoError(t, c.Submit())
				assert.NoError(t, c.Arrive())
				assert.True(t, c.Test())
				r, err := c.Report()
				assert.NoError(t, err)
				if !r.Clean() {
					reported[g]++
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, want, reported[0]+reported[1]+reported[2]+reported[3])
}

// TestEnvironment: any program's fabrics run under the plan of the environment,
// unless they have one of their own.
func TestEnvironment(t *testing.T) {
	t.Setenv(fabric.FaultsVariable, "rate=1,kinds=drop")
	f, err := fabric.NewLocal(fabric.WithRank(0))
	require.NoError(t, err)
	m, err := f.Alloc(4096)
	require.NoError(t, err)
	e, err := f.Create(transport.EndpointConfig{Size: 4096})
	require.NoError(t, err)
	require.NoError(t, e.Ready(t.Context()))
	require.NoError(t, e.Bind(0, m))
	c, err := f.NewCompletion(1)
	require.NoError(t, err)
	require.NoError(t, f.Put(c, transport.Handle{ID: e.ID()}, filled(16, 1)))
	require.NoError(t, c.Submit())
	require.NoError(t, c.Arrive())
	await(t, c.Test)
	r, err := c.Report()
	require.NoError(t, err)
	require.False(t, r.Clean())
	require.Zero(t, m.Load(0))
	require.NoError(t, f.Close())
	require.NoError(t, m.Free())

	t.Setenv(fabric.FaultsVariable, "rate=2")
	_, err = fabric.NewLocal()
	var wrong *faults.PlanError
	require.ErrorAs(t, err, &wrong)
	require.Contains(t, err.Error(), fabric.FaultsVariable)
	_, err = fabric.NewLocal(fabric.WithFaults("rate=no"))
	require.ErrorAs(t, err, &wrong)
	p := openPair(t, fabric.NewLocal)
	require.NoError(t, p.ts[1].Put(p.c, p.at(0), filled(16, 1)))
	require.True(t, p.finish().Clean())
}

// TestLateAfterAll: whatever became of endpoints, imports and memory meanwhile,
// what is late harms nobody.
func TestLateAfterAll(t *testing.T) {
	everywhere(t, func(t *testing.T, one maker, mode fabric.Mode) {
		seed := rand.Uint64()
		t.Logf("seed %#x", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 40 {
			p := openPair(t, one, fabric.WithMode(mode), fabric.WithFaults(fmt.Sprintf("seed=%d,rate=1,kinds=late,links=1>0", rng.Uint64())))
			p.dirty = true
			require.NoError(t, p.ts[1].Put(p.c, p.at(1024), filled(1024, 1)))
			require.False(t, p.finish().Clean())
			imported := rng.IntN(2) == 0
			if imported {
				require.NoError(t, p.in.Destroy())
			}
			if rng.IntN(2) == 0 {
				require.NoError(t, p.own.Destroy())
			} else {
				require.NoError(t, p.own.Unbind(0, pairBytes))
			}
			require.NoError(t, p.mem.Free())
			// Other memory, which may be at the same place, behind another endpoint.
			m, err := p.ts[0].Alloc(pairBytes)
			require.NoError(t, err)
			e, err := p.ts[0].Create(transport.EndpointConfig{Size: pairBytes})
			require.NoError(t, err)
			require.NoError(t, e.Ready(t.Context()))
			require.NoError(t, e.Bind(0, m))
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
			p.ts[1].Drain()
			require.True(t, bytes.Equal(make([]byte, pairBytes), m.Bytes()))
			require.NoError(t, e.Destroy())
			require.NoError(t, m.Free())
			for _, f := range p.ts {
				require.NoError(t, f.Close())
			}
		}
	})
}

// TestLateBehindRebound: memory that is bound anew under the same offsets gets
// what is late: rebinding reclaims nothing.
func TestLateBehindRebound(t *testing.T) {
	asynchronousFaulty(t, "rate=1,kinds=late,links=1>0", func(t *testing.T, p *pair, rec *recorder) {
		require.NoError(t, p.ts[1].PutCounted(p.c, p.at(1024), filled(1024, 1), 0))
		p.carriedOut(fabric.ModeDefault)
		was := p.mem.Load(0)
		m, err := p.ts[0].Alloc(pairBytes)
		require.NoError(t, err)
		require.NoError(t, p.own.Unbind(0, pairBytes))
		require.NoError(t, p.own.Bind(0, m))
		p.ts[1].Drain()
		require.Equal(t, was, p.mem.Load(0))
		require.Equal(t, 1024-was, binary.NativeEndian.Uint64(m.Bytes()))
		require.NoError(t, p.own.Unbind(0, pairBytes))
		require.NoError(t, m.Free())
	})
}
