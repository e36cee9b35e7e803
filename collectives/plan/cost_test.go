package plan

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultModel(t *testing.T) {
	m := DefaultModel()
	require.NoError(t, m.Validate())
	require.NotEmpty(t, m.Measured)
	require.NotEmpty(t, m.Multicast.Measured)
	require.NotEmpty(t, m.FabricMulticast.Measured)
	for class, l := range m.Links {
		require.NotEmpty(t, l.Measured, class)
		require.Positive(t, l.LatencyNs, class)
	}
	// Changing a copy changes no other.
	m.Links[LinkShm] = Link{}
	require.NotEqual(t, m.Links[LinkShm], DefaultModel().Links[LinkShm])
	// What is written is read back.
	text, err := json.Marshal(DefaultModel())
	require.NoError(t, err)
	again, err := ParseModel(text)
	require.NoError(t, err)
	require.Equal(t, DefaultModel(), again)
}

func TestParseModelErrors(t *testing.T) {
	good, err := os.ReadFile("model.json")
	require.NoError(t, err)
	change := func(old, new string) string {
		require.Contains(t, string(good), old)
		return strings.Replace(string(good), old, new, 1)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "no JSON in it"},
		{"cut off", string(good[:len(good)/2]), "ends too early"},
		{"two", string(good) + "{}", "follows the closing brace"},
		{"syntax", change(`"callNs": 150,`, `"callNs" 150,`), "line 3"},
		{"type", change(`"stepNs": 10,`, `"stepNs": "10",`), "line 4"},
		{"no object", "[]", "line 1"},
		{"unknown", change(`"callNs"`, `"callSeconds"`), `"callSeconds"`},
		{"unknown in a link", change(`"latencyNs"`, `"latency"`), `"latency"`},
		{"unknown link", change(`"net": {`, `"net": {}, "lan": {`), `unknown link "lan", known are shm, net and fabric`},
		{"missing link", change(`"shm": {`, `"lan": {`), `no link "shm"`},
		{"nothing", "{}", `no link "shm"`},
		{"negative", change(`"wireNsPerByte": 0.08`, `"wireNsPerByte": -1`), "links.net.wireNsPerByte is -1"},
		{"huge", change(`"combineNsPerByte": 0.13`, `"combineNsPerByte": 1e12`), "combineNsPerByte is 1e+12"},
		{"beyond", change(`"combineNsPerByte": 0.13`, `"combineNsPerByte": 1e999`), "line 6"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseModel([]byte(tc.text))
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "cost model")
		})
	}
	m := DefaultModel()
	m.StepNs = math.NaN()
	require.ErrorContains(t, m.Validate(), "stepNs is NaN")
}

func FuzzParseModel(f *testing.F) {
	f.Add(defaultModelJSON)
	f.Add([]byte(`{"links":{"shm":{},"net":{}}}`))
	f.Add([]byte(`{"links":{"shm":{"putNs":1e9},"net":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseModel(data)
		if err != nil {
			require.Nil(t, m)
			return
		}
		require.NoError(t, m.Validate())
		s := Shape{Collective: AllReduce, Ranks: 3, Count: 5, ElemBytes: 4, MessageBytes: 8, Cells: 2}
		schedules, err := buildRanks(Build, Algorithms(AllReduce)[0], s)
		require.NoError(t, err)
		_, ns, err := m.Time(schedules, Spread(3, 2))
		require.NoError(t, err)
		require.False(t, math.IsNaN(ns) || math.IsInf(ns, 0) || ns < 0)
	})
}

// simpleModel has round numbers: bytes of different ways are in different digits.
func simpleModel() *Model {
	return &Model{CallNs: 1000, StepNs: 1, CopyNsPerByte: 1, CombineNsPerByte: 10, CombineNsPerByteSource: 1,
		Links: map[string]Link{
			LinkShm: {PutNs: 10, PutNsPerByte: 1, LatencyNs: 100, WaitNs: 5, InboxNsPerByte: 2, ReleaseNs: 3},
			LinkNet: {PutNs: 10, PutNsPerByte: 1, LatencyNs: 10000, WireNsPerByte: 50, WaitNs: 5, InboxNsPerByte: 2, ReleaseNs: 3},
		},
		Multicast: MulticastCost{PutNs: 7, PutNsPerByte: 1, PutNsPerByteReplica: 10, PullNs: 9, PullNsPerByte: 2, PullNsPerByteReplica: 20}}
}

// byHand makes schedules of the given steps, of elements of two bytes.
func byHand(cells int, ranks ...[]Step) []*Schedule {
	s := Shape{Collective: Broadcast, Ranks: len(ranks), Count: 100, ElemBytes: 2, MessageBytes: 200, Cells: cells}
	var all []*Schedule
	for r, steps := range ranks {
		all = append(all, &Schedule{Algorithm: "by hand", Shape: s, Rank: r, Steps: steps})
	}
	return all
}

func handPut(peer, n int) Step {
	return Step{Kind: Put, Peer: peer, Srcs: []Range{{Buf: Send, To: n}}}
}
func handWait(peer, n int) Step { return Step{Kind: Wait, Peer: peer, Elems: n} }
func handCopy(peer, n int) Step {
	return Step{Kind: Copy, Dst: Range{Buf: Recv, To: n}, Srcs: []Range{{Buf: Inbox, Peer: peer, To: n}}}
}

func TestTime(t *testing.T) {
	send := Range{Buf: Send, To: 5}
	recv := Range{Buf: Recv, To: 5}
	inbox := Range{Buf: Inbox, Peer: 0, To: 5}
	for _, tc := range []struct {
		name  string
		cells int
		ranks [][]Step
		nodes int
		want  []float64 // without CallNs
	}{
		{"nothing", 1, [][]Step{{}, {}}, 1, []float64{0, 0}},
		{"copy", 1, [][]Step{{{Kind: Copy, Dst: recv, Srcs: []Range{send}}}}, 1, []float64{1 + 10}},
		{"combine", 1, [][]Step{{{Kind: Combine, Dst: recv, Srcs: []Range{send, recv}}}}, 1, []float64{1 + 100 + 20}},
		{"pull", 1, [][]Step{{{Kind: PullReduce, Dst: recv, Srcs: []Range{{Buf: Multi, To: 5}}}}, {}}, 1, []float64{1 + 9 + 20 + 400, 0}},
		{"push", 1, [][]Step{{{Kind: PutMulti, Dst: Range{Buf: Multi, To: 5}, Srcs: []Range{send}}}, {}}, 1, []float64{1 + 7 + 10 + 200, 0}},
		{"message", 1, [][]Step{{handPut(1, 5)}, {handWait(0, 5), handCopy(0, 5), {Kind: Release, Peer: 0}}}, 1,
			[]float64{1 + 10 + 10, 21 + 100 + 6 + (1 + 10 + 20) + 4}},
		{"combine from an inbox", 1, [][]Step{{handPut(1, 5)}, {handWait(0, 5), {Kind: Combine, Dst: recv, Srcs: []Range{send, inbox}}}}, 1,
			[]float64{21, 121 + 6 + 1 + 100 + 20 + 20}},
		{"message to a late rank", 1, [][]Step{{handPut(1, 5)}, {{Kind: Copy, Dst: Range{Buf: Recv, To: 500}, Srcs: []Range{{Buf: Send, To: 500}}}, handWait(0, 5)}}, 1,
			[]float64{21, 1001 + 6}},
		// The second Put waits for the cell: 121 arrives, 127 waited, 131 released, 231 known.
		{"one cell", 1, [][]Step{{handPut(1, 5), handPut(1, 5)}, {handWait(0, 5), {Kind: Release, Peer: 0}, handWait(0, 5)}}, 1,
			[]float64{231 + 21, 252 + 100 + 6}},
		{"two cells", 2, [][]Step{{handPut(1, 5), handPut(1, 5)}, {handWait(0, 5), {Kind: Release, Peer: 0}, handWait(0, 5)}}, 1,
			[]float64{42, 142 + 6}},
		{"two nodes", 1, [][]Step{{handPut(1, 5)}, {handWait(0, 5)}}, 2, []float64{21, 21 + 500 + 10000 + 6}},
		// Ranks 0 and 1 share the wires of node 0; rank 1 is the later one.
		{"shared wires", 1, [][]Step{{handPut(2, 5)}, {handPut(3, 10)}, {handWait(0, 5)}, {handWait(1, 10)}}, 2,
			[]float64{21, 31, 21 + 500 + 10000 + 6, 21 + 500 + 1000 + 10000 + 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schedules := byHand(tc.cells, tc.ranks...)
			perRankNs, totalNs, err := simpleModel().Time(schedules, Spread(len(tc.ranks), tc.nodes))
			require.NoError(t, err)
			most := 0.0
			for r, ns := range tc.want {
				require.InDelta(t, 1000+ns, perRankNs[r], 1e-6, "rank %d", r)
				most = max(most, 1000+ns)
			}
			require.InDelta(t, most, totalNs, 1e-6)
		})
	}
}

func TestTimeErrors(t *testing.T) {
	good := byHand(1, []Step{handPut(1, 5)}, []Step{handWait(0, 5)})
	other := *good[1]
	other.Shape.Count++
	for _, tc := range []struct {
		name      string
		schedules []*Schedule
		topology  Topology
		want      string
	}{
		{"none", nil, nil, "no schedules"},
		{"missing", []*Schedule{good[0], nil}, nil, "no schedule of rank 1"},
		{"exchanged", []*Schedule{good[1], good[0]}, nil, "place 0"},
		{"too few", good[:1], nil, "of rank 0 of 2"},
		{"other shape", []*Schedule{good[0], &other}, nil, "another shape"},
		{"topology", good, Topology{0}, "topology has 1 ranks"},
		{"node", good, Topology{0, -1}, "rank 1 is on node -1"},
		{"never sent", byHand(1, []Step{}, []Step{handWait(0, 5)}), nil, "deadlock: rank 1 never gets past step 0"},
		{"never released", byHand(1, []Step{handPut(1, 5), handPut(1, 5)}, []Step{handWait(0, 5)}), nil, "deadlock: rank 0 never gets past step 1"},
		{"no cells", byHand(0, []Step{handPut(1, 5)}, []Step{handWait(0, 5)}), nil, "0 cells"},
		{"peer", byHand(1, []Step{handPut(7, 5)}, nil), nil, "rank 7 of 2"},
		{"negative peer", byHand(1, []Step{handWait(-1, 5)}, nil), nil, "rank -1 of 2"},
		{"sources", byHand(1, []Step{{Kind: Put, Peer: 1}}, nil), nil, "0 sources"},
		{"release", byHand(1, []Step{{Kind: Release, Peer: 1}}, nil), nil, "without a message"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := simpleModel().Time(tc.schedules, tc.topology)
			require.ErrorContains(t, err, tc.want)
			_, err = simpleModel().Trace(tc.schedules, tc.topology)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A trace is consistent, and the same every time.
func TestTrace(t *testing.T) {
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			s := costShape(c, 6, 200)
			schedules, err := buildRanks(Build, name, s)
			require.NoError(t, err)
			for _, topology := range []Topology{nil, Spread(6, 3)} {
				m := DefaultModel()
				tr, err := m.Trace(schedules, topology)
				require.NoError(t, err, name)
				again, err := m.Trace(schedules, topology)
				require.NoError(t, err)
				require.Equal(t, tr, again)
				_, totalNs, err := m.Time(schedules, topology)
				require.NoError(t, err)
				require.Equal(t, totalNs, tr.TotalNs)
				for r, steps := range tr.Steps {
					require.Len(t, steps, len(schedules[r].Steps))
					now := m.CallNs
					for _, st := range steps {
						require.Equal(t, now, st.StartNs)
						require.LessOrEqual(t, st.StartNs, st.ReadyNs)
						require.Less(t, st.ReadyNs, st.EndNs)
						now = st.EndNs
					}
					require.Equal(t, now, tr.RankNs[r])
				}
				for _, msg := range tr.Messages {
					require.GreaterOrEqual(t, msg.ToStep, 0, "%s: somebody waits for it", name)
					require.Equal(t, tr.Steps[msg.From][msg.FromStep].EndNs, msg.SentNs)
					require.GreaterOrEqual(t, tr.Steps[msg.To][msg.ToStep].ReadyNs, msg.ArriveNs)
				}
			}
		}
	}
}

// costShape is a shape with small messages.
func costShape(c Collective, ranks, count int) Shape {
	s := Shape{Collective: c, Ranks: ranks, Count: count, ElemBytes: 4, MessageBytes: 256, Cells: 3}
	if c == Barrier {
		s.Count = 0
	}
	return s
}

// Estimates of large counts, extrapolated from few segments, agree with
// simulations of all segments.
func TestEstimate(t *testing.T) {
	const within = 0.03
	ranks := []int{2, 3, 5, 8}
	if testing.Short() || raceDetector {
		ranks = []int{3}
	}
	m := DefaultModel()
	worst := 0.0
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			for _, n := range ranks {
				for _, topology := range []Topology{nil, Spread(n, 2)} {
					for _, segments := range []int{1, 3, 10, 30} {
						for _, elems := range []int{300, 4095, 4097} { // of 4096 that a message holds
							s := costShape(c, n, segments*elems)
							s.MessageBytes = 4096 * s.ElemBytes
							if c == AllReduce || c == Reduce || c == Broadcast {
								s.Count *= n
							}
							if c == Barrier {
								s.Count = 0
							}
							schedules, err := buildRanks(Build, name, s)
							require.NoError(t, err)
							_, want, err := m.Time(schedules, topology)
							require.NoError(t, err)
							got, err := m.Estimate(name, s, topology)
							require.NoError(t, err)
							require.InEpsilon(t, want, got, within, "%s %v, %d elements among %d", name, c, s.Count, n)
							worst = max(worst, math.Abs(got/want-1))
						}
					}
				}
			}
		}
	}
	t.Logf("estimates are within %.1f %%", 100*worst)
}

func TestEstimateErrors(t *testing.T) {
	m := DefaultModel()
	_, err := m.Estimate("nonsense", costShape(AllReduce, 4, 10), nil)
	require.Error(t, err)
	_, err = m.Estimate(Algorithms(AllReduce)[0], costShape(AllReduce, 0, 10), nil)
	require.Error(t, err)
	_, err = m.Estimate(Algorithms(AllReduce)[0], costShape(AllReduce, 4, 10), Topology{0})
	require.ErrorContains(t, err, "topology")
	_, err = m.Estimate(Algorithms(AllReduce)[0], costShape(AllReduce, 4, -1), nil)
	require.ErrorContains(t, err, "negative")

	// The estimator passes on what the builder says, and again.
	broken := errors.New("broken")
	build := func(a string, s Shape, r int) (*Schedule, error) {
		if s.Count > 100 {
			return nil, broken
		}
		return Build(a, s, r)
	}
	e := newEstimator(m, build, Algorithms(AllReduce)[0], costShape(AllReduce, 4, 0), nil, defaultStepBudget)
	for range 2 {
		_, err = e.at(10)
		require.ErrorIs(t, err, broken)
	}
}

func TestSpread(t *testing.T) {
	require.Equal(t, Topology{0, 0, 1, 1}, Spread(4, 2))
	require.Equal(t, Topology{0, 0, 1, 1, 2}, Spread(5, 3))
	require.Equal(t, Topology{0, 1, 2}, Spread(3, 7))
	require.Equal(t, Topology{0, 0}, Spread(2, 0))
	require.False(t, Spread(3, 1).several())
	require.True(t, Spread(3, 2).several())
}
