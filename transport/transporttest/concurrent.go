package transporttest

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
)

// checkConcurrent has several goroutines of several ranks work on the same
// words, and wants nothing lost.
func checkConcurrent(t *testing.T, open New) {
	const (
		ranks, goroutines, rounds = 3, 3, 200
		ints, floats, halves      = dataAt, dataAt + 64, dataAt + 128
		word, best                = dataAt + 192, dataAt + 256
		private                   = 4096
	)
	rng := random(t)
	g := openGroup(t, open, ranks, area)
	one := map[kernels.Type][]byte{}
	for _, typ := range []kernels.Type{kernels.TypeUint64, kernels.TypeFloat32, kernels.TypeBFloat16} {
		b := make([]byte, 48)
		for o := 0; o < len(b); o += typ.Size() {
			if isFloat(typ) {
				storeFloat(b[o:], 1, typ)
			} else {
				b[o] = 1
			}
		}
		one[typ] = b
	}
	var largest atomic.Uint64
	var olds sync.Map // what the atoms returned
	var wg sync.WaitGroup
	for from := 1; from < ranks; from++ {
		for i := range goroutines {
			seed := rng.Uint64()
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 0))
				tr := g.ts[from]
				c, err := tr.NewCompletion(1)
				if !assertNoError(t, err) {
					return
				}
				id := g.peer[from][0].ID()
				at := func(off uint64) transport.Handle { return transport.Handle{ID: id, Offset: off} }
				mine := at(private + uint64(from*goroutines+i)*4096)
				old, operand, max := make([]byte, 8), make([]byte, 8), make([]byte, 16)
				operand[0] = 1
				src := make([]byte, 4096)
				for round := range rounds {
					v := rng.Uint64() >> 1
					for was := largest.Load(); was < v && !largest.CompareAndSwap(was, v); was = largest.Load() {
					}
					binary.NativeEndian.PutUint64(max, v)
					fill(rng, src)
					ok := assertNoError(t, tr.Red(c, at(ints), one[kernels.TypeUint64], transport.RedAdd, kernels.TypeUint64)) &&
						assertNoError(t, tr.RedCounted(c, at(floats), one[kernels.TypeFloat32], transport.RedAdd, kernels.TypeFloat32, counterAt)) &&
						assertNoError(t, tr.Red(c, at(best), max, transport.RedMax, kernels.TypeUint64)) &&
						assertNoError(t, tr.PutCounted(c, mine, src, counterAt)) &&
						assertNoError(t, tr.Atom(c, old, at(word), operand, transport.RedAdd, kernels.TypeUint64))
					if round < 20 { // larger sums are not exact in bfloat16
						ok = ok && assertNoError(t, tr.Red(c, at(halves), one[kernels.TypeBFloat16], transport.RedAdd, kernels.TypeBFloat16))
					}
					if !ok {
						return
					}
					finish(t, c)
					if _, twice := olds.LoadOrStore(binary.LittleEndian.Uint64(old), true); twice {
						t.Errorf("atom add returned %d twice", binary.LittleEndian.Uint64(old))
					}
				}
				got := make([]byte, len(src))
				if assertNoError(t, tr.Get(c, got, mine)) {
					finish(t, c)
					if string(got) != string(src) {
						t.Error("own data differs")
					}
				}
			})
		}
	}
	wg.Wait()
	const workers = (ranks - 1) * goroutines
	want := uint64(workers * rounds * (48 + 4096))
	require.Eventually(t, func() bool { return g.mem[0].Load(counterAt) == want }, patience, 1e6, "counter")
	g.ts[0].Fence(transport.FenceAcquire)
	mem := g.mem[0].Bytes()
	for i := range 6 {
		require.EqualValues(t, workers*rounds, binary.NativeEndian.Uint64(mem[ints+8*i:]))
	}
	for i := range 12 {
		require.EqualValues(t, workers*rounds, loadFloat(mem[floats+4*i:], kernels.TypeFloat32))
	}
	for i := range 24 {
		require.EqualValues(t, workers*20, loadFloat(mem[halves+2*i:], kernels.TypeBFloat16))
	}
	require.EqualValues(t, workers*rounds, g.mem[0].Load(word))
	require.Equal(t, largest.Load(), g.mem[0].Load(best))
}

// assertNoError is require.NoError for goroutines of a test.
func assertNoError(t testing.TB, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// checkDoorbell wants every operation that changes a word to wake the owner.
func checkDoorbell(t *testing.T, open New) {
	g := openGroup(t, open, 2, area)
	bell := g.mem[0].Doorbell()

	// Nobody rings: the sleep ends all the same.
	start := time.Now()
	ticket := bell.Arm()
	bell.Sleep(ticket, 5*time.Millisecond)
	bell.Disarm()
	require.Less(t, time.Since(start), patience)

	// Rung after Arm and before Sleep: the sleep is none.
	start = time.Now()
	ticket = bell.Arm()
	bell.Ring()
	bell.Sleep(ticket, patience)
	bell.Disarm()
	require.Less(t, time.Since(start), patience/2)

	// Rung before Arm: that was another time.
	bell.Ring()
	ticket = bell.Arm()
	bell.Sleep(ticket, time.Millisecond)
	bell.Disarm()

	// Several sleep: one ring wakes them all, and one that is up again leaves the
	// bell armed for the others.
	start = time.Now()
	var sleepers sync.WaitGroup
	extra := bell.Arm()
	for range 3 {
		ticket := bell.Arm()
		sleepers.Go(func() {
			bell.Sleep(ticket, patience)
			bell.Disarm()
		})
	}
	bell.Sleep(extra, time.Millisecond)
	bell.Disarm()
	one := make([]byte, 16)
	require.NoError(t, g.ts[1].PutCounted(g.done[1], transport.Handle{ID: g.peer[1][0].ID(), Offset: dataAt}, one, counterAt))
	finish(t, g.done[1])
	sleepers.Wait()
	require.Less(t, time.Since(start), patience/2)

	wakes := func(name string, bell transport.Doorbell, start func() error) {
		ticket := bell.Arm()
		slept := make(chan struct{})
		begin := time.Now()
		go func() {
			bell.Sleep(ticket, patience)
			close(slept)
		}()
		time.Sleep(2 * time.Millisecond) // most likely it sleeps by now; it need not
		require.NoError(t, start(), name)
		<-slept
		bell.Disarm()
		require.Less(t, time.Since(begin), patience/2, "%s does not wake", name)
	}
	h := transport.Handle{ID: g.peer[1][0].ID(), Offset: dataAt}
	local := make([]byte, 16)
	local[0] = 1
	wakes("Ring", bell, func() error { bell.Ring(); return nil })
	for _, op := range ranged {
		if !op.multicast && (op.counted || op.name == "Red") {
			wakes(op.name, bell, func() error {
				if err := op.start(g.ts[1], g.done[1], h, local, counterAt); err != nil {
					return err
				}
				finish(t, g.done[1])
				return nil
			})
		}
	}
	for _, typ := range []kernels.Type{kernels.TypeUint32, kernels.TypeUint64} {
		wakes("Atom", bell, func() error {
			old := make([]byte, 16)
			if err := g.ts[1].Atom(g.done[1], old, h, local, transport.RedAdd, typ); err != nil {
				return err
			}
			finish(t, g.done[1])
			return nil
		})
	}
	m := openMulticast(t, open, 3, area)
	h.ID = m.all[1].ID()
	for _, op := range ranged {
		if op.multicast && (op.counted || op.name == "RedMultimem") {
			for r := range m.mem {
				wakes(op.name, m.mem[r].Doorbell(), func() error {
					if err := op.start(m.ts[1], m.done[1], h, local, counterAt); err != nil {
						return err
					}
					finish(t, m.done[1])
					return nil
				})
			}
		}
	}
}

// checkDoorbellHammer has ranks wake each other as fast as they can. A wake-up
// that is lost shows as a sleep that lasts.
func checkDoorbellHammer(t *testing.T, open New) {
	const ringers, rounds = 3, 1500
	rng := random(t)
	g := openGroup(t, open, 1+ringers, area)
	// Rank 0 waits until all have raised its word, then raises theirs.
	await := func(rank int, at, want uint64) bool {
		bell := g.mem[rank].Doorbell()
		for g.mem[rank].Load(at) < want {
			ticket := bell.Arm()
			if g.mem[rank].Load(at) >= want {
				bell.Disarm()
				return true
			}
			begin := time.Now()
			bell.Sleep(ticket, patience)
			bell.Disarm()
			if time.Since(begin) > patience/2 {
				t.Errorf("rank %d slept through its word reaching %d", rank, want)
				return false
			}
		}
		return true
	}
	raise := func(from, to int, seed uint64) bool {
		one := make([]byte, 16)
		one[0] = 1
		h := transport.Handle{ID: g.peer[from][to].ID(), Offset: dataAt}
		var err error
		switch seed % 3 { // all that change a word
		case 0:
			err = g.ts[from].Red(g.done[from], h, one, transport.RedAdd, kernels.TypeUint64)
		case 1:
			err = g.ts[from].Atom(g.done[from], make([]byte, 16), h, one, transport.RedAdd, kernels.TypeUint64)
		default:
			h.Offset = dataAt + 16
			err = g.ts[from].PutCounted(g.done[from], h, one, counterAt)
		}
		if err == nil {
			finish(t, g.done[from])
		}
		return assertNoError(t, err)
	}
	seeds := make([]uint64, 1+ringers)
	for i := range seeds {
		seeds[i] = rng.Uint64()
	}
	inParallel(1+ringers, func(rank int) {
		rng := rand.New(rand.NewPCG(seeds[rank], 0))
		for round := uint64(1); round <= rounds; round++ {
			if rank != 0 {
				if !raise(rank, 0, uint64(rank)) || !await(rank, dataAt, round) {
					return
				}
				for range rng.IntN(3) * 500 { // come at different times
					spin.Add(1)
				}
				continue
			}
			// Of three ringers one adds by Red, one by Atom, and one counts 16 bytes.
			// Two goroutines wait, on one bell.
			counted := make(chan bool)
			go func() { counted <- await(0, counterAt, 16*round) }()
			added := await(0, dataAt, 2*round)
			if !<-counted || !added {
				return
			}
			for to := 1; to <= ringers; to++ {
				if !raise(0, to, 3) {
					return
				}
			}
		}
	})
}

var spin atomic.Uint64

// checkContention has ranks reduce into the same elements all the time: one
// update that is not atomic loses others'.
func checkContention(t *testing.T, open New) {
	workers, rounds, bytes := 4, 60, 16<<10
	types := []kernels.Type{kernels.TypeUint64, kernels.TypeUint32, kernels.TypeFloat64, kernels.TypeFloat32, kernels.TypeFloat16, kernels.TypeBFloat16}
	if raceEnabled { // it finds accesses that are not atomic without many; one type of each size
		bytes, types = 1<<10, []kernels.Type{kernels.TypeUint64, kernels.TypeFloat32, kernels.TypeBFloat16}
	}
	g := openGroup(t, open, 1+workers, area)
	for _, typ := range types {
		ones := make([]byte, bytes)
		for o := 0; o < len(ones); o += typ.Size() {
			if isFloat(typ) {
				storeFloat(ones[o:], 1, typ)
			} else {
				ones[o] = 1
			}
		}
		clear(g.mem[0].Bytes()[dataAt:])
		clear(g.want[0][dataAt:])
		g.ts[0].Fence(transport.FenceRelease)
		inParallel(workers, func(i int) {
			from := 1 + i
			h := transport.Handle{ID: g.peer[from][0].ID(), Offset: dataAt}
			for range rounds {
				if !assertNoError(t, g.ts[from].RedCounted(g.done[from], h, ones, transport.RedAdd, typ, counterAt)) {
					return
				}
				finish(t, g.done[from])
			}
		})
		for range workers * rounds { // 240: every type counts as far exactly
			combine(g.want[0][dataAt:], ones, transport.RedAdd, typ)
		}
		g.counted(0, counterAt, workers*rounds*bytes)
		g.check("%d sums of %v", workers*rounds, typ)
	}
}
