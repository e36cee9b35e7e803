package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/internal/record"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/kernels"
)

// TestMain is a rank whose results are wrong by one bit, if the tests ask for one.
func TestMain(m *testing.M) {
	ranktest.Main(m, map[string]func() error{"planted": func() error {
		at, err := strconv.Atoi(os.Getenv("WEFT_TEST_RANK"))
		if err != nil {
			return err
		}
		p := program{name: "perf", stdout: os.Stdout, stderr: os.Stderr, tamper: func(rank int, dst []byte) {
			if rank == at && len(dst) > 0 {
				dst[len(dst)/2] ^= 1
			}
		}}
		if status := p.main(strings.Fields(os.Getenv("WEFT_TEST_ARGS"))); status != 0 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	}, "forms": forms})
}

// TestPlantedError: one bit of one element on one rank is found, counted and
// makes the run fail, whatever the collective.
func TestPlantedError(t *testing.T) {
	for _, coll := range []string{"allreduce", "broadcast", "allgather", "alltoall", "reduce", "reducescatter", "gather", "scatter", "scan"} {
		for _, tt := range []struct {
			name, typ string
			rank      int
			found     bool
		}{{"right", "float", -1, false}, {"float", "float", 1, true}, {"half", "half", 0, true}, {"int8", "int8", 1, true}} {
			t.Run(coll+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "out.jsonl")
				j := ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK="+strconv.Itoa(tt.rank),
					"WEFT_TEST_ARGS=-warm -n 4 -b 4K -e 4K -coll "+coll+" -t "+tt.typ+" -json "+file)
				for _, r := range j.Ranks {
					err := r.Wait(time.Minute)
					require.NotErrorIs(t, err, ranktest.ErrRunning)
					require.Equal(t, tt.found, err != nil, r.Output())
				}
				verdict := "# Out of bounds values : 0 OK"
				if tt.found {
					verdict = "FAILED"
				}
				require.Contains(t, j.Ranks[0].Output(), verdict)
				lines, failures := readAll(t, file)
				require.NotEmpty(t, lines)
				for _, l := range lines {
					require.Equal(t, tt.found, l.Wrong != nil && *l.Wrong > 0, "%+v", l)
				}
				if tt.found {
					require.Len(t, failures, 1)
					require.Contains(t, failures[0].Error, "wrong results")
				} else {
					require.Empty(t, failures)
				}
			})
		}
	}
}

// TestUnchecked: without checks nothing is said to be right.
func TestUnchecked(t *testing.T) {
	j := ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK=1", "WEFT_TEST_ARGS=-warm -n 4 -b 64 -e 64 -c 0")
	j.Succeed(t, time.Minute)
	require.Contains(t, j.Ranks[0].Output(), "N/A")
	require.Contains(t, j.Ranks[0].Output(), "not checked")
}

// TestFailedRun: the file is valid, and says what went wrong.
func TestFailedRun(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"root", "-coll broadcast -r 2 -warm -n 1 -e 8", "there are 2 ranks"},
		{"peer file", "-peer file:nothing.jsonl -warm -n 1 -e 8", "nothing.jsonl"},
		{"transport", "-transport pigeon", "pigeon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.jsonl")
			j := ranktest.Start(t, 2, "planted", "WEFT_TEST_RANK=-1", "WEFT_TEST_ARGS="+tt.args+" -json "+file)
			for _, r := range j.Ranks {
				err := r.Wait(time.Minute)
				require.NotErrorIs(t, err, ranktest.ErrRunning)
				require.Error(t, err)
			}
			lines, failures := readAll(t, file)
			require.Empty(t, lines)
			require.Len(t, failures, 1)
			require.Contains(t, failures[0].Error, tt.want)
			require.NotEmpty(t, failures[0].Env.Go)
		})
	}
}

// readAll reads a file of lines, each of which must be an object.
func readAll(t *testing.T, name string) (lines []record.Line, failures []record.Failure) {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, text := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
		if len(text) == 0 {
			continue
		}
		var f record.Failure
		require.NoError(t, json.Unmarshal(text, &f), "%s", text)
		if f.Error != "" {
			failures = append(failures, f)
			continue
		}
		var l record.Line
		require.NoError(t, json.Unmarshal(text, &l))
		lines = append(lines, l)
	}
	return lines, failures
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want func(t *testing.T, c config)
		err  string
	}{
		{"", func(t *testing.T, c config) {
			require.Equal(t, sizes{min: 8, max: 16 << 20, factor: 2}, c.sizes)
			require.Equal(t, []kernels.Type{kernels.TypeFloat32}, c.types)
			require.Equal(t, []kernels.Op{kernels.Sum}, c.ops)
			require.Equal(t, "allreduce", c.colls[0].name)
			require.Equal(t, []int{-1, 0, 5, 1, 1}, []int{c.root, c.iters, c.warmup, c.check, c.cycles})
		}, ""},
		{"-b 1K -e 2M -f 4 -n 7 -w 0 -c 3 -o max -r 1 -t half -T 5", func(t *testing.T, c config) {
			require.Equal(t, sizes{min: 1 << 10, max: 2 << 20, factor: 4}, c.sizes)
			require.Equal(t, []int{1, 7, 0, 3}, []int{c.root, c.iters, c.warmup, c.check})
			require.Equal(t, []kernels.Type{kernels.TypeFloat16}, c.types)
			require.Equal(t, []kernels.Op{kernels.Max}, c.ops)
			require.Equal(t, 5*time.Second, c.timeout)
		}, ""},
		{"--minbytes 16 --maxbytes 64 --stepbytes 16 --datatype double --root 0", func(t *testing.T, c config) {
			require.Equal(t, []int64{16, 32, 48, 64}, c.sizes.all())
			require.Equal(t, []kernels.Type{kernels.TypeFloat64}, c.types)
			require.Equal(t, 0, c.root)
		}, ""},
		{"-d bfloat16,int8 -o all -coll all_reduce,broadcast", func(t *testing.T, c config) {
			require.Equal(t, []kernels.Type{kernels.TypeBFloat16, kernels.TypeInt8}, c.types)
			require.Len(t, c.ops, 5)
			require.Equal(t, "broadcast", c.colls[1].name)
		}, ""},
		{"-t all -coll all -peer file:x.jsonl -memory symmetric -warm", func(t *testing.T, c config) {
			require.Len(t, c.types, 14)
			require.Len(t, c.colls, len(collectivesTable))
			require.Equal(t, "x.jsonl", c.peerFile)
			require.True(t, c.warm)
			require.Equal(t, blocking, c.form)
		}, ""},
		{"-form persistent -coll reduce_scatter,gather", func(t *testing.T, c config) {
			require.Equal(t, persistent, c.form)
			require.Equal(t, []kind{reduceScatter, gather}, []kind{c.colls[0].kind, c.colls[1].kind})
		}, ""},
		{"-form started", func(t *testing.T, c config) { require.Equal(t, started, c.form) }, ""},
		{"-form group", nil, "known are blocking"},
		{"-coll scan -o avg", nil, "scan: no such operator"},
		{"-coll scan,reduce -o avg", func(t *testing.T, c config) {
			require.Len(t, newSheets(&c, 2), 1, "Scan has no average")
		}, ""},
		{"-coll scan -o avg,max", func(t *testing.T, c config) {
			for _, e := range newSheets(&c, 2)[0].entries {
				require.Equal(t, kernels.Max, e.op)
			}
		}, ""},
		{"-b 64M", func(t *testing.T, c config) { require.Equal(t, []int64{64 << 20}, c.sizes.all()) }, ""},
		{"-t float16,complex64", nil, `type "complex64"`},
		{"-t invalid", nil, `type "invalid"`},
		{"-o sum,bitand", nil, `operator "bitand"`},
		{"-b 8 -e 4", nil, "-e 4 is less"},
		{"-b 0", nil, "at least 1"},
		{"-b x", nil, "size"},
		{"-b 4X", nil, "size"},
		{"-f 1", nil, "-f above 1"},
		{"-t string", nil, "known are int8"},
		{"-o xor", nil, "operator"},
		{"-coll exscan", nil, "known are allreduce"},
		{"-r x", nil, "no rank"},
		{"-r -2", nil, "no rank"},
		{"-n -1", nil, "at least 0"},
		{"-N 0", nil, "at least 1"},
		{"-n 3 -N 5", func(t *testing.T, c config) { require.Equal(t, []int{3, 5}, []int{c.iters, c.cycles}) }, ""},
		{"--run_cycles 2", func(t *testing.T, c config) { require.Equal(t, 2, c.cycles) }, ""},
		{"-blocks 0", nil, "at least 1"},
		{"-T 0", nil, "no time"},
		{"-memory gpu", nil, "known are slice"},
		{"-peer ucc", nil, "known are mpi"},
		{"-peer file:", nil, "known are mpi"},
		{"-budget 0s", nil, "more than 0"},
		{"extra", nil, "unexpected"},
		{"-nonsense", nil, "not defined"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			c, err := parseFlags("perf", "", strings.Fields(tt.args), io.Discard)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			tt.want(t, c)
		})
	}
	var help bytes.Buffer
	_, err := parseFlags("ring", "ring", []string{"-h"}, &help)
	require.True(t, errors.Is(err, flag.ErrHelp))
	require.Contains(t, help.String(), "usage: ring")
	_, err = parseFlags("ring", "ring", []string{"-algo", "tree"}, io.Discard)
	require.Error(t, err, "a program of one algorithm has no flag for it")
}

func TestPeerNeedsMPI(t *testing.T) {
	_, err := newPeer(t.Context(), &config{peer: "file", peerFile: filepath.Join(t.TempDir(), "none")}, nil, nil)
	require.Error(t, err)
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]int64{"8": 8, "4K": 4096, "4k": 4096, "1.5M": 3 << 19, "2G": 2 << 30, "16MiB": 16 << 20, "1KB": 1024} {
		n, err := parseSize(s)
		require.NoError(t, err, s)
		require.Equal(t, want, n, s)
	}
	require.Equal(t, []int64{8, 16, 32, 64}, sizes{min: 8, max: 64, factor: 2}.all())
	require.Equal(t, []int64{1, 2, 3}, sizes{min: 1, max: 3, factor: 1.1}.all(), "always on")

	// By nccl-tests: the size is that of all blocks where there are some.
	for _, tt := range []struct {
		coll          string
		ranks         int
		count, bytes  int64
		source, dest  int64
		busbwByAlgobw float64
	}{
		{"allreduce", 4, 256, 1024, 256, 256, 1.5},
		{"reduce", 4, 256, 1024, 256, 256, 1},
		{"broadcast", 4, 256, 1024, 256, 256, 1},
		{"allgather", 4, 64, 1024, 64, 256, 0.75},
		{"alltoall", 4, 64, 1024, 256, 256, 0.75},
		{"alltoall", 3, 85, 1020, 255, 255, 2. / 3},
		{"reducescatter", 4, 64, 1024, 256, 64, 0.75},
		{"reducescatter", 3, 85, 1020, 255, 85, 2. / 3},
		{"gather", 4, 64, 1024, 64, 256, 0.75},
		{"scatter", 4, 64, 1024, 256, 64, 0.75},
		{"scan", 4, 256, 1024, 256, 256, 0},
		{"barrier", 4, 0, 0, 0, 0, 0},
		{"allreduce", 1, 256, 1024, 256, 256, 0},
	} {
		c, err := parseCollectives(tt.coll)
		require.NoError(t, err)
		count := c[0].perRank(1024, 4, tt.ranks)
		require.Equal(t, tt.count, count, tt.coll)
		require.Equal(t, tt.bytes, c[0].bytes(count, 4, tt.ranks), tt.coll)
		src, dst := c[0].elements(count, tt.ranks)
		require.Equal(t, []int64{tt.source, tt.dest}, []int64{src, dst}, tt.coll)
		require.InDelta(t, tt.busbwByAlgobw, c[0].busFactor(tt.ranks), 1e-12, tt.coll)
	}
	c, _ := parseCollectives("alltoall")
	require.Equal(t, []int64{1, 2}, sizes{min: 4, max: 64, factor: 2}.counts(c[0], 4, 8), "no size twice")
}

func TestLayout(t *testing.T) {
	c, _ := parseCollectives("allgather")
	l := newLayout(c[0], 3, 4, 4, 4096, false)
	require.Equal(t, layout{src: 3, dst: 12, srcStride: 16, dstStride: 16, slots: 64}, l)
	require.EqualValues(t, 1, newLayout(c[0], 3, 4, 4, 4096, true).slots)
	// In place the shorter is the rank's block of the longer.
	require.Equal(t, layout{src: 3, dst: 12, srcAt: 6, srcStride: 16, dstStride: 16, slots: 64}, l.inPlace(2))
	c, _ = parseCollectives("reducescatter")
	l = newLayout(c[0], 20, 4, 4, 4096, false)
	require.Equal(t, layout{src: 80, dst: 20, srcStride: 80, dstStride: 32, slots: 12}, l)
	require.Equal(t, layout{src: 80, dst: 20, dstAt: 60, srcStride: 80, dstStride: 80, slots: 12}, l.inPlace(3))
	c, _ = parseCollectives("alltoall")
	l = newLayout(c[0], 3, 4, 4, 4096, false)
	require.Equal(t, l, l.inPlace(3))
	for _, tt := range []struct{ slots, ranks, want int64 }{{1, 2, 1}, {2, 3, 2}, {3, 3, 3}, {100, 3, 99}, {5000, 3, 4095}, {5000, 2, 4096}} {
		l := layout{slots: tt.slots}
		l.limit(mostPersistent, tt.ranks)
		require.Equal(t, tt.want, l.slots, "%+v", tt)
	}
	require.EqualValues(t, 32<<20, regionBytes(8, 2, 32<<20, false))
	require.EqualValues(t, 128<<20, regionBytes(64<<20, 2, 32<<20, false), "two slots at least")
	require.EqualValues(t, 64, regionBytes(8, 2, 32<<20, true))
}

func TestStatistics(t *testing.T) {
	s := summarize([][]float64{{1, 2, 3}, {2, 3, 4}, {3, 4, 5}})
	require.Equal(t, 3.0, s.median)
	require.Equal(t, 3.0, s.mean)
	require.Equal(t, 5.0, s.p99)
	require.InDelta(t, (4.0-2)/2/3, s.spread, 1e-12, "of the blocks' medians")
	s = summarize([][]float64{{10, 10, 10, 10}, {10, 10, 10, 90}})
	require.Equal(t, 10.0, s.median)
	require.Zero(t, s.spread, "one disturbance is none")
	require.Equal(t, summary{}, summarize(nil))
	require.Equal(t, 1.5, quantile([]float64{1, 2}, 0.5))
	require.Equal(t, 7.0, quantile([]float64{7}, 0.99))
	require.Equal(t, 99.0, nearest(series(100), 0.99))
	require.Equal(t, 1.0, nearest([]float64{1}, 0.99))
}

func series(n int) []float64 {
	var s []float64
	for i := range n {
		s = append(s, float64(i+1))
	}
	return s
}

func TestBatches(t *testing.T) {
	bcast, _ := parseCollectives("broadcast")
	rotating := &pass{coll: bcast[0], root: -1, ranks: 3}
	fixed := &pass{coll: bcast[0], root: 1, ranks: 3}
	auto := &config{blocks: 5, budget: 100 * time.Millisecond}
	require.Equal(t, 102, batchLength(auto, rotating, 1e-6), "every rank is the root as often")
	require.Equal(t, 100, batchLength(auto, fixed, 1e-6))
	require.Equal(t, 1, batchLength(auto, fixed, 1e-3))
	require.Equal(t, mostBatch, batchLength(auto, fixed, 1e-9))
	require.Equal(t, 7, batchLength(&config{batch: 7}, fixed, 1e-6))
	require.Equal(t, 2, batchLength(&config{iters: 20, blocks: 5}, fixed, 1e-6))
	require.Equal(t, 200, batchCount(auto, 100, 1e-6))
	require.Equal(t, fewest, batchCount(auto, 1, 1))
	require.Equal(t, 4, batchCount(&config{iters: 20, blocks: 5}, 1, 1e-6))
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		x     float64
		width int
		want  string
	}{{1.234, 7, "1.23"}, {12345.678, 7, "12345.7"}, {123456.7, 7, "123457"}, {1234567, 7, "1234567"},
		{12345678, 7, "1.2e+07"}, {0, 6, "0.00"}, {1e9, 6, "1e+09"}} {
		require.Equal(t, tt.want, fit(tt.x, tt.width))
	}
}

// TestTable is what rows look like: nccl-tests' columns, to the character.
func TestTable(t *testing.T) {
	none, bus, peer, ratio := int64(0), 7.5, 30.0, 2.4
	out := &record.Line{Coll: "allreduce", Algo: "direct", Bytes: 1024, Count: 256, Type: "float", Op: "sum", Root: -1,
		TimeUS: 12.5, AlgBW: 5, BusBW: &bus, Wrong: &none, SpreadPct: 1.5, PeerP50US: &peer, Ratio: &ratio}
	in := *out
	in.InPlace, in.Wrong, in.BusBW, in.PeerP50US = true, nil, nil, nil
	var b bytes.Buffer
	table{w: &b, peer: false}.heading("")
	table{w: &b, peer: false}.row(out, &in)
	table{w: &b, peer: true}.row(out, &in)
	rooted := *out
	rooted.Coll, rooted.Op = "broadcast", "none"
	table{w: &b, peer: false}.row(nil, &rooted)
	require.Equal(t, `#
#                                                              out-of-place                       in-place             spread (%)      algo
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong  out     in
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    12.50    5.00    7.50       0    12.50    5.00       -     N/A  ±1.50  ±1.50    direct
        1024           256     float     sum      -1    12.50    5.00    7.50       0    12.50    5.00       -     N/A  ±1.50  ±1.50    direct      30.00    2.40            -       -
        1024           256     float    none     rot        -       -       -       -    12.50    5.00    7.50       0      -  ±1.50    direct
`, b.String())
	b.Reset()
	spread := 2.25
	out.RatioSpreadPct = &spread
	table{w: &b, peer: true, ratioSpread: true}.heading("Some MPI")
	table{w: &b, peer: true, ratioSpread: true}.row(out, &in)
	require.Equal(t, `#
#                                                              out-of-place                       in-place             spread (%)      algo                      Some MPI
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong  out     in               out-of-place                  in-place
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)                                   time   ratio    (%)         time   ratio    (%)
        1024           256     float     sum      -1    12.50    5.00    7.50       0    12.50    5.00       -     N/A  ±1.50  ±1.50    direct      30.00    2.40  ±2.25            -       -      -
`, b.String())
}

// TestKeys: the keys that readers rely on.
func TestKeys(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, record.NewWriter(&b).Write(record.Line{}))
	var m map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &m))
	for _, key := range strings.Fields(`coll algo transport memory form device ranks bytes count type op root inplace time_us
		p50_us p99_us algbw_gbs busbw_gbs wrong peer peer_p50_us ratio reports retries reroutes env`) {
		require.Contains(t, m, key)
	}
	for _, key := range strings.Fields("machine cores affinity kernel go mpi revision command") {
		require.Contains(t, m["env"], key)
	}
	lines, err := record.Read(strings.NewReader(`{"coll":"allreduce"}` + "\n" + `{"form":"started"}`))
	require.NoError(t, err)
	require.Equal(t, []string{"blocking", "started"}, []string{lines[0].Form, lines[1].Form}, "older lines have none")
	require.Equal(t, "perf -e 8", commandLine("perf", strings.Fields("-e 8 -json x")))
	require.Equal(t, "perf -e 8", commandLine("perf", strings.Fields("--json=x -e 8")))
}

// TestValues: inputs give exact results in every type, in every order, and the
// check sees each wrong bit.
func TestValues(t *testing.T) {
	const n = 777
	for i, typ := range typeNames {
		for j, op := range allOps {
			if ranktest.Race && (i+j)%5 != 0 { // nothing happens at the same time
				continue
			}
			for _, ranks := range []int{1, 2, 5, 32, 300} {
				m := newMaker(typ.typ, true, op, ranks)
				size := typ.typ.Size()
				srcs := make([][]byte, ranks)
				for r := range srcs {
					srcs[r] = kernels.Bytes(make([]uint64, n))[:n*size]
					m.fill(srcs[r], r, 100)
				}
				got := kernels.Bytes(make([]uint64, n))[:n*size]
				for range 2 {
					require.NoError(t, kernels.Reduce(got, srcs, typ.typ, op))
					require.Zero(t, m.wrongReduced(got, ranks, 100), "%s %v %d ranks", typ.name, op, ranks)
					for i := range ranks / 2 { // the other way round
						srcs[i], srcs[ranks-1-i] = srcs[ranks-1-i], srcs[i]
					}
				}
				got[len(got)/2] ^= 1
				require.EqualValues(t, 1, m.wrongReduced(got, ranks, 100), "%s %v", typ.name, op)
			}
		}
		m := newMaker(typ.typ, false, kernels.Sum, 2)
		buf := kernels.Bytes(make([]uint64, n))[:n*typ.typ.Size()]
		m.fill(buf, 1, 5)
		require.Zero(t, m.wrong(buf, 1, 5))
		require.NotZero(t, m.wrong(buf, 0, 5), "ranks differ")
		require.NotZero(t, m.wrong(buf, 1, 6), "places differ")
	}
}

func TestFindPeer(t *testing.T) {
	base := record.Line{Coll: "allreduce", Ranks: 2, Bytes: 8, Type: "float", Op: "sum", Root: -1, Memory: "slice", Form: "blocking"}
	other, symmetric, persistent := base, base, base
	other.Bytes, symmetric.Memory, persistent.Form = 16, "symmetric", "persistent"
	p := &peer{lines: []record.Line{base, symmetric, other, persistent}}
	require.Same(t, &p.lines[0], p.find(&base))
	require.Same(t, &p.lines[1], p.find(&symmetric))
	require.Same(t, &p.lines[3], p.find(&persistent))
	persistent.Memory = "symmetric"
	require.Same(t, &p.lines[1], p.find(&persistent), "the memory counts more than the form")
	missing := base
	missing.Ranks = 3
	require.Nil(t, p.find(&missing))
}
