package collectives

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/ranktest"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// The soak makes random collectives in all forms over a fabric that fails. The memory
// of a call is scribbled over the moment the call returns, and must stay as it was left
// until it is used again: nothing that is late may read it or write to it. What failed
// and what was done about it is counted for each collective.

// soakKinds are the kinds of faults of a soak, one by one and mixed, by the names that
// its tally has for them.
var soakKinds = []struct{ name, plan string }{
	{"drop", "drop"}, {"ack", "ack"}, {"part", "part"}, {"late", "late"}, {"mixture", "drop+ack+part+late"},
}

// several is what the tally has for a batch of different collectives.
const several = "several at once"

// A soakRow is what is counted apart.
type soakRow struct {
	Faults     string `json:"faults"` // of soakKinds
	Collective string `json:"collective"`
}

// A soakCount is the sum over the ranks, but for Calls.
type soakCount struct {
	Calls    uint64 `json:"calls"`
	Injected uint64 `json:"injected"` // phases that the fabric had fail
	Reports  uint64 `json:"reports"`  // those, and what did not end in time
	Retries  uint64 `json:"retries"`
	Reroutes uint64 `json:"reroutes"`
	Alias    uint64 `json:"by_alias,omitempty"`   // of those
	Pointer  uint64 `json:"by_pointer,omitempty"` // likewise
	Replaced uint64 `json:"replaced"`             // cells
	ByHeader uint64 `json:"by_header"`            // messages
}

func (n *soakCount) add(o soakCount) {
	n.Calls += o.Calls
	n.Injected += o.Injected
	n.Reports += o.Reports
	n.Retries += o.Retries
	n.Reroutes += o.Reroutes
	n.Alias += o.Alias
	n.Pointer += o.Pointer
	n.Replaced += o.Replaced
	n.ByHeader += o.ByHeader
}

// A soakTally has the counts of a rank, or of a soak.
type soakTally map[soakRow]soakCount

func (t soakTally) add(row soakRow, n soakCount) {
	sum := t[row]
	sum.add(n)
	t[row] = sum
}

func (t soakTally) addAll(o soakTally) {
	for row, n := range o {
		t.add(row, n)
	}
}

// sum is that of all rows.
func (t soakTally) sum() (sum soakCount) {
	for _, n := range t {
		sum.add(n)
	}
	return sum
}

// soakCollectives are those that are counted, in their order.
func soakCollectives() []string {
	var names []string
	for _, k := range metaKinds {
		names = append(names, k.String())
	}
	return append(names, several)
}

// String is the table of faults injected and phases tried again.
func (t soakTally) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "injected/retried\tcalls\t")
	for _, k := range soakKinds {
		fmt.Fprintf(w, "%s\t", k.name)
	}
	fmt.Fprintln(w)
	for _, name := range soakCollectives() {
		var calls uint64
		line := ""
		for _, k := range soakKinds {
			n := t[soakRow{k.name, name}]
			calls += n.Calls
			line += fmt.Sprintf("%d/%d\t", n.Injected, n.Retries)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", name, calls, line)
	}
	w.Flush()
	all := t.sum()
	fmt.Fprintf(&b, "%d collectives, %d faults, %d phases tried again, %d messages and credits another way (%d by alias, %d by pointer), %d cells replaced, %d messages by header",
		all.Calls, all.Injected, all.Retries, all.Reroutes, all.Alias, all.Pointer, all.Replaced, all.ByHeader)
	return b.String()
}

// requireAll fails unless each kind of fault happened in each collective, and was
// dealt with.
func (t soakTally) requireAll(tb testing.TB) {
	for _, k := range soakKinds {
		for _, name := range soakCollectives() {
			n := t[soakRow{k.name, name}]
			require.NotZero(tb, n.Calls, "%s: %s", k.name, name)
			require.NotZero(tb, n.Injected, "%s: %s", k.name, name)
			require.NotZero(tb, n.Retries, "%s: %s", k.name, name)
		}
	}
}

// userMemory is what the calls of a rank use. What is not in use has been scribbled
// over.
type userMemory struct {
	free  [48][]scribbled // by the logarithm of the length, the oldest first
	taken []scribbled     // in use
	next  uint64
}

type scribbled struct {
	b       []byte
	pattern uint64
}

// resting is how much memory of a length is left alone before some is used again.
const resting = 4

// take returns memory whose last use is some time ago.
func (m *userMemory) take(n int) ([]byte, error) {
	class := bits.Len(uint(max(n, 8) - 1))
	free := &m.free[class]
	if len(*free) < resting {
		m.taken = append(m.taken, scribbled{b: make([]byte, 1<<class)})
	} else {
		oldest := (*free)[0]
		*free = slices.Delete(*free, 0, 1)
		if err := oldest.check(); err != nil {
			return nil, err
		}
		m.taken = append(m.taken, oldest)
	}
	return m.taken[len(m.taken)-1].b[:n:n], nil
}

// give writes over memory that was in use and is not any more.
func (m *userMemory) give(s []scribbled) {
	for _, s := range s {
		m.next += 0x9e3779b97f4a7c15
		s.pattern = m.next
		for at := 0; at < len(s.b); at += 8 {
			binary.NativeEndian.PutUint64(s.b[at:], s.pattern)
		}
		class := bits.Len(uint(len(s.b) - 1))
		m.free[class] = append(m.free[class], s)
	}
}

// check finds that somebody wrote to memory that is not in use.
func (s scribbled) check() error {
	for at := 0; at < len(s.b); at += 8 {
		if got := binary.NativeEndian.Uint64(s.b[at:]); got != s.pattern {
			return fmt.Errorf("memory of %d bytes was written to after its call had returned: at %d is %016x, not %016x", len(s.b), at, got, s.pattern)
		}
	}
	return nil
}

// checkAll checks all that is not in use.
func (m *userMemory) checkAll() error {
	for _, free := range m.free {
		for _, s := range free {
			if err := s.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A soakRank is one rank of a soak.
type soakRank struct {
	world  *comm.Communicator
	faults string   // of soakKinds
	log    *os.File // of this rank's faults; what is before its offset is counted
	long   bool     // see soakKey
	tally  soakTally
	memory userMemory
	own    *rand.Rand
	got    []byte
}

// newSoakRank returns a rank whose faults are logged to the files that begin with log.
func newSoakRank(world *comm.Communicator, faults, log string, seed uint64) (*soakRank, error) {
	f, err := os.Open(fmt.Sprintf("%s.%d", log, world.Rank()))
	return &soakRank{
		world: world, faults: faults, log: f, tally: soakTally{},
		own: rand.New(rand.NewPCG(seed, uint64(1000+world.Rank()))),
	}, err
}

// A soakScript is what is called on one communicator, and what comes of it. Of its
// batches each has one kind of collective, but for the last.
type soakScript struct {
	*metaProgram
	want [][][]byte
}

type soakKey struct {
	seed  uint64
	n     int
	exact bool
	long  bool // calls of many rounds, where calls go by rounds
}

var soakScripts = newShared[soakKey, soakScript](8)

// soakBatch is how many calls a batch has at most. soakSteps is how many a program
// has, whatever the number of ranks: the ranks need not know what others do in parts
// of the world.
const (
	soakBatch = 4
	soakSteps = 16*(soakBatch+1)/2 + soakBatch
)

func newSoakScript(k soakKey) soakScript {
	r := rand.New(rand.NewPCG(k.seed, uint64(k.n)))
	p := &metaProgram{n: k.n, long: k.long}
	for at, i := range r.Perm(len(metaKinds)) {
		for j := range 1 + at%soakBatch {
			p.draw(r, metaKinds[i], k.exact, j > 0)
		}
		p.ends = append(p.ends, len(p.steps))
	}
	for j := range soakBatch {
		p.draw(r, metaKinds[r.IntN(len(metaKinds))], k.exact, j > 0)
	}
	p.ends = append(p.ends, len(p.steps))
	return soakScript{p, p.reference()}
}

// run makes collectives, the given number or some more, on the world of the rank and on
// communicators that come of it. All ranks draw the same. exact: by algorithms that need
// not keep the order of a reduction.
func (s *soakRank) run(ctx context.Context, seed uint64, calls int, exact bool) error {
	common := rand.New(rand.NewPCG(seed, 17))
	for made := 0; made < calls; made += soakSteps {
		way, perms, program, form := 0, common.Uint64(), common.Uint64(), common.IntN(len(metaForms))
		if common.IntN(8) == 0 {
			way = common.IntN(len(communicators))
		}
		c, err := communicators[way].make(ctx, s.world, rand.New(rand.NewPCG(perms, 0)))
		if err != nil {
			return fmt.Errorf("%s: %w", communicators[way].name, err)
		}
		if c == nil {
			continue
		}
		key := soakKey{program, c.Size(), exact, s.long}
		p := soakScripts.get(key, func() soakScript { return newSoakScript(key) })
		if err := s.program(ctx, c, p, form); err != nil {
			return fmt.Errorf("%s: %+v: %w", communicators[way].name, key, err)
		}
		if c != s.world {
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return s.memory.checkAll()
}

// program makes the calls of a program, each batch in the next form, and counts.
func (s *soakRank) program(ctx context.Context, c *comm.Communicator, p soakScript, form int) error {
	before, err := soFar(c)
	if err != nil {
		return err
	}
	from := 0
	for i, to := range p.ends {
		form := (form + i) % len(metaForms)
		if err := s.batch(ctx, c, p, from, to, form); err != nil {
			return fmt.Errorf("%s, steps %d to %d: %w", metaForms[form].name, from, to-1, err)
		}
		after, err := soFar(c)
		if err != nil {
			return err
		}
		row := soakRow{s.faults, several}
		if i < len(p.ends)-1 {
			row.Collective = p.steps[from].kind.String()
		}
		n := after.since(before)
		if n.Injected, err = s.injected(); err != nil {
			return err
		}
		if c.Rank() == 0 {
			n.Calls = uint64(to - from)
		}
		s.tally.add(row, n)
		before, from = after, to
	}
	return nil
}

// soFar is what this rank did on a communicator with all of its ranks.
func soFar(c *comm.Communicator) (soakCount, error) {
	var n soakCount
	stats, err := c.Stats()
	for _, p := range stats {
		n.add(soakCount{
			Reports: p.Reports, Retries: p.Retries, Reroutes: p.Reroutes.All(), Alias: p.Reroutes.Alias, Pointer: p.Reroutes.Pointer,
			Replaced: p.Replaced, ByHeader: p.ByHeader,
		})
	}
	return n, err
}

// since is what was added to o.
func (n soakCount) since(o soakCount) soakCount {
	return soakCount{
		Reports: n.Reports - o.Reports, Retries: n.Retries - o.Retries, Reroutes: n.Reroutes - o.Reroutes,
		Alias: n.Alias - o.Alias, Pointer: n.Pointer - o.Pointer,
		Replaced: n.Replaced - o.Replaced, ByHeader: n.ByHeader - o.ByHeader,
	}
}

// injected returns how many faults were logged since it was last called.
func (s *soakRank) injected() (uint64, error) {
	text, err := io.ReadAll(s.log)
	if err != nil {
		return 0, err
	}
	records, err := faults.ReadLog(bytes.NewReader(text))
	for _, r := range records {
		if r.Link.From != s.world.Rank() {
			return 0, fmt.Errorf("rank %d logged a fault of link %v", s.world.Rank(), r.Link)
		}
	}
	return uint64(len(records)), err
}

// batch makes the calls of some steps in a form. The moment a call returns its memory is
// written over; what it left there is compared from a copy.
func (s *soakRank) batch(ctx context.Context, c *comm.Communicator, p soakScript, from, to, form int) error {
	rank := c.Rank()
	ops, results, used := make([]operation, to-from), make([][]byte, to-from), make([][]scribbled, to-from)
	var failed error
	take := func(n int) []byte {
		b, err := s.memory.take(n)
		if err != nil {
			failed = err
			b = make([]byte, n)
		}
		return b
	}
	for i := range ops {
		st := &p.steps[from+i]
		if st.again {
			results[i], used[i] = results[i-1], used[i-1]
			ops[i] = st.operation(c, results[i], results[i])
			continue
		}
		var src []byte
		results[i], src = st.memory(rank, p.n, take)
		used[i], s.memory.taken = s.memory.taken, nil
		ops[i] = st.operation(c, results[i], src)
	}
	if failed != nil {
		return failed
	}
	err := metaForms[form].run(ctx, c, ops, s.own, func(i int) {
		if next := from + i + 1; next < to && p.steps[next].again {
			return // the next call works on it
		}
		s.got = append(s.got[:0], results[i]...)
		s.memory.give(used[i])
		if err := p.compare(from+i, rank, s.got, p.want[from+i][rank]); err != nil && failed == nil {
			failed = err
		}
	})
	return errors.Join(err, failed)
}

// A soakRun is a soak of ranks of one process.
type soakRun struct {
	seed      uint64
	ranks     int
	transport string
	kind      int // of soakKinds
	rate      float64
	spec      string // of algorithms
	dead      string // links that die, if any
	long      bool   // see soakKey
	calls     int
}

// dyingAliases has the first ids die everywhere, multicast memory with them, and one
// second id later.
const dyingAliases = "*>*/0@30;0>1/1@100"

func (r soakRun) faults() string {
	plan := fmt.Sprintf("seed=%d,kinds=%s,rate=%v", r.seed, soakKinds[r.kind].plan, r.rate)
	if r.dead != "" {
		plan += ",dead=" + r.dead
	}
	return plan
}

func (r soakRun) String() string {
	return fmt.Sprintf("seed %d, %d ranks, %s, %s, algorithms %q, %d calls", r.seed, r.ranks, r.transport, r.faults(), r.spec, r.calls)
}

// do does it, and adds to the tally.
func (r soakRun) do(t *testing.T, tally soakTally) {
	log := filepath.Join(t.TempDir(), "faults")
	cs, err := comm.Local(r.ranks, comm.WithTransport(r.transport), comm.WithTimeout(time.Minute), comm.WithAlgorithm(r.spec),
		comm.WithFaults(r.faults()), comm.WithFaultLog(log))
	require.NoError(t, err)
	tallies := make([]soakTally, r.ranks)
	err = errors.Join(each(cs, func(c *comm.Communicator) error {
		s, err := newSoakRank(c, soakKinds[r.kind].name, log, r.seed)
		if err == nil {
			s.long = r.long
			err = s.run(context.Background(), r.seed, r.calls, r.spec != "")
		}
		if err != nil {
			c.Abort(err)
		}
		tallies[c.Rank()] = s.tally
		return errors.Join(err, c.Close(), s.log.Close())
	})...)
	require.NoError(t, err, "%v", r)
	for _, part := range tallies {
		tally.addAll(part)
	}
}

// soakFaults is about how many messages of a lane a communicator of the soak is to lose:
// with many more there would be no cells left, and the rest would go by detour.
const soakFaults = 400

// TestFabricSoak has random collectives over a fabric that fails in every way, rarely
// and often. WEFT_TEST_LONG=1 makes a million of them; WEFT_TEST_RESULTS is a file that
// the counts are written to, as lines of JSON.
func TestFabricSoak(t *testing.T) {
	seed := metaSeed(t)
	tally, specs := soakTally{}, metaSpecs()
	run := 0
	for i, kind := range soakKinds {
		for j, rate := range []float64{0.001, 0.01, 0.1} {
			for k, transport := range []string{"fabric", "fabric:fast"} {
				ranks, calls := []int{2 + (i+2*j+3*k)%4}, []int{1, 2, 16}[j]*soakSteps
				if testLong {
					ranks, calls = []int{2, 3, 4, 5, 6, 7, 8}, 5000
				}
				if raceEnabled || testing.Short() {
					if calls = soakSteps; rate < 0.1 {
						continue
					}
				}
				for _, n := range ranks {
					t.Run(fmt.Sprintf("%s/%s/%v/ranks=%d", transport, kind.name, rate, n), func(t *testing.T) {
						for left := calls; left > 0; run++ {
							r := soakRun{
								seed: seed + uint64(run), ranks: n, transport: transport, kind: i, rate: rate,
								calls: min(left, int(soakFaults/rate/8)), // of so many messages
							}
							if run%2 == 1 { // the others by what the library takes
								r.spec = specs[run/2%len(specs)]
							}
							r.do(t, tally)
							left -= r.calls
						}
					})
				}
			}
		}
	}
	t.Run("aliases die", func(t *testing.T) {
		dying := soakTally{}
		for i, transport := range []string{"fabric", "fabric:fast"} {
			r := soakRun{
				seed: seed + uint64(run+i), ranks: 3, transport: transport, kind: len(soakKinds) - 1, rate: 0.05,
				spec: []string{"", "multimem"}[i], dead: dyingAliases, calls: 2 * soakSteps,
			}
			if testLong {
				r.calls = 1000
			}
			r.do(t, dying)
		}
		require.NotZero(t, dying.sum().Alias)
		require.NotZero(t, dying.sum().Pointer)
		tally.addAll(dying)
	})
	t.Run("rounds", func(t *testing.T) { // of calls between two ranks
		for i, rate := range []float64{0.1, 0.01, 0.001} {
			for k, transport := range []string{"fabric", "fabric:fast"} {
				calls := soakSteps
				if testLong {
					calls = 600
				} else if i > 0 || raceEnabled && k == 0 {
					continue
				}
				for ; calls > 0; run++ {
					r := soakRun{
						seed: seed + uint64(run), ranks: 2, transport: transport, kind: len(soakKinds) - 1, rate: rate,
						long: true, calls: min(calls, 2*soakSteps), // what a lane has cells for
					}
					r.do(t, tally)
					calls -= r.calls
				}
			}
		}
	})
	if raceEnabled || testing.Short() {
		return
	}
	t.Logf("seed %d\n%v", seed, tally)
	tally.requireAll(t)
	tally.write(t, seed, "goroutines")
}

// fabricSoakProgram is a rank of the soak between processes.
func fabricSoakProgram() error {
	seed, err := strconv.ParseUint(os.Getenv("WEFT_TEST_SEED"), 10, 64)
	if err != nil {
		return err
	}
	calls, err := strconv.Atoi(os.Getenv("WEFT_TEST_CALLS"))
	if err != nil {
		return err
	}
	c, err := comm.Init(context.Background(), comm.WithTimeout(time.Minute))
	if err != nil {
		return err
	}
	s, err := newSoakRank(c, os.Getenv("WEFT_TEST_KIND"), os.Getenv("WEFT_FAULTS_LOG"), seed)
	if err == nil {
		s.long = os.Getenv("WEFT_TEST_ROUNDS") != ""
		err = s.run(context.Background(), seed, calls, c.Algorithm() != "")
	}
	if err != nil {
		c.Abort(err)
	}
	if err := errors.Join(err, c.Close(), s.log.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s.tally.entries())
}

// startSoak starts the ranks of a soak.
func startSoak(t *testing.T, n, calls int, seed uint64, kind, transport, faults, spec string, env ...string) *ranktest.Job {
	return ranktest.Start(t, n, "fabricsoak", append(env, fmt.Sprintf("WEFT_TEST_SEED=%d", seed), fmt.Sprintf("WEFT_TEST_CALLS=%d", calls),
		"WEFT_TEST_KIND="+kind, "WEFT_TRANSPORT="+transport, "WEFT_FAULTS="+faults, "WEFT_ALGO="+spec,
		"WEFT_FAULTS_LOG="+filepath.Join(t.TempDir(), "faults"))...)
}

// soaked waits for the end of a soak and returns its tally.
func soaked(t *testing.T, j *ranktest.Job) soakTally {
	j.Succeed(t, 3*time.Minute)
	tally := soakTally{}
	for _, rank := range j.Ranks {
		var part []soakEntry
		require.NoError(t, json.Unmarshal([]byte(rank.Output()), &part), rank.Output())
		for _, e := range part {
			tally.add(e.soakRow, e.soakCount)
		}
	}
	return tally
}

// TestFabricSoakProcesses has the same between processes.
func TestFabricSoakProcesses(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector does not see what processes share")
	}
	seed := metaSeed(t)
	tally, specs := soakTally{}, metaSpecs()
	ranks, calls := []int{3}, 6*soakSteps
	if testLong {
		ranks, calls = []int{2, 4, 8}, 500
	}
	run, first := uint64(0), int(seed%2)
	for i, kind := range soakKinds {
		for k, transport := range []string{"fabric", "fabric:fast"} {
			if !testLong && (i+k)%2 != first {
				continue
			}
			for _, n := range ranks {
				t.Run(fmt.Sprintf("%s/%s/ranks=%d", transport, kind.name, n), func(t *testing.T) {
					r := soakRun{seed: seed + run, ranks: n, transport: transport, kind: i, rate: 0.1, calls: calls}
					if (i/2+k)%2 == 1 {
						r.spec = specs[run%uint64(len(specs))]
					}
					if i == len(soakKinds)-1 {
						r.dead = dyingAliases
					}
					t.Log(r)
					tally.addAll(soaked(t, startSoak(t, n, calls, r.seed, kind.name, transport, r.faults(), r.spec)))
				})
				run++
			}
		}
	}
	t.Run("rounds", func(t *testing.T) {
		r := soakRun{seed: seed + run, ranks: 2, transport: "fabric:fast", kind: len(soakKinds) - 1, rate: 0.05, long: true, calls: soakSteps}
		if testLong {
			r.calls = 500
		}
		t.Log(r)
		tally.addAll(soaked(t, startSoak(t, r.ranks, r.calls, r.seed, soakKinds[r.kind].name, r.transport, r.faults(), "", "WEFT_TEST_ROUNDS=1")))
	})
	t.Logf("seed %d\n%v", seed, tally)
	if testLong {
		tally.requireAll(t)
	}
	require.NotZero(t, tally.sum().Alias)
	for _, name := range soakCollectives() {
		var sum soakCount
		for _, k := range soakKinds {
			sum.add(tally[soakRow{k.name, name}])
		}
		require.NotZero(t, sum.Injected, name)
		require.NotZero(t, sum.Retries, name)
	}
	tally.write(t, seed, "processes")
}

// A soakEntry is a row of a tally.
type soakEntry struct {
	soakRow
	soakCount
}

// entries are all rows, in order.
func (t soakTally) entries() []soakEntry {
	var all []soakEntry
	for _, k := range soakKinds {
		for _, name := range soakCollectives() {
			row := soakRow{k.name, name}
			if n, ok := t[row]; ok {
				all = append(all, soakEntry{row, n})
			}
		}
	}
	return all
}

// A soakLine is a line of results.
type soakLine struct {
	soakEntry
	Ranks string `json:"ranks"` // what they are
	Env   struct {
		Machine  string `json:"machine"`
		Cores    int    `json:"cores"`
		Kernel   string `json:"kernel"`
		Go       string `json:"go"`
		Revision string `json:"revision"` // of weft
		Command  string `json:"command"`
		Seed     uint64 `json:"seed"`
	} `json:"env"`
}

// write adds the tally to the file that WEFT_TEST_RESULTS names, if any.
func (t soakTally) write(tb testing.TB, seed uint64, ranks string) {
	path := os.Getenv("WEFT_TEST_RESULTS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, f.Close()) }()
	line := soakLine{Ranks: ranks}
	env := &line.Env
	env.Machine, env.Cores, env.Kernel, env.Go = "unknown", runtime.NumCPU(), runtime.GOOS, runtime.Version()
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, ok := strings.Cut(string(b), "model name"); ok {
			model, _, _ := strings.Cut(after, "\n")
			env.Machine = strings.TrimSpace(strings.TrimLeft(model, "\t :"))
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		env.Kernel = strings.TrimSpace(string(b))
	}
	env.Revision = "unknown"
	if b, err := exec.Command("git", "describe", "--always", "--dirty=+", "--abbrev=12").Output(); err == nil {
		env.Revision = strings.TrimSpace(string(b))
	}
	env.Command, env.Seed = "go test ./collectives -run "+tb.Name(), seed
	if testLong {
		env.Command = "WEFT_TEST_LONG=1 " + env.Command
	}
	out := json.NewEncoder(f)
	for _, line.soakEntry = range t.entries() {
		require.NoError(tb, out.Encode(line))
	}
}
