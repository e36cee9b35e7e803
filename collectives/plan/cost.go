package plan

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// A Model says what the steps of a schedule cost. All times are nanoseconds.
type Model struct {
	Measured string `json:"measured"` // where the numbers are from

	CallNs float64 `json:"callNs"` // each call, whatever it does
	StepNs float64 `json:"stepNs"` // each step, on top of what follows

	CopyNsPerByte float64 `json:"copyNsPerByte"`
	// A combination costs CombineNsPerByte for each byte of the result and
	// CombineNsPerByteSource for each byte of each source.
	CombineNsPerByte       float64 `json:"combineNsPerByte"`
	CombineNsPerByteSource float64 `json:"combineNsPerByteSource"`

	// Links has what messages cost between ranks of one node (LinkShm), between
	// nodes (LinkNet), and between ranks that a compute fabric joins (LinkFabric).
	Links map[string]Link `json:"links"`
	// Multicast is the cost of multicast memory that all ranks of a node map,
	// FabricMulticast that of a fabric's.
	Multicast       MulticastCost `json:"multicast"`
	FabricMulticast MulticastCost `json:"fabricMulticast"`
}

// The classes of links. A model may do without LinkFabric.
const (
	LinkShm    = "shm"
	LinkNet    = "net"
	LinkFabric = "fabric"
)

// OnFabric returns a model of the same in which a compute fabric joins the ranks of a
// node.
func (m *Model) OnFabric() *Model {
	c := *m
	c.Links = maps.Clone(m.Links)
	if l, ok := m.Links[LinkFabric]; ok {
		c.Links[LinkShm], c.Multicast = l, m.FabricMulticast
	}
	return &c
}

// A Link says what a message between two ranks costs.
type Link struct {
	Measured string `json:"measured"`

	// Sender: a Put keeps it busy for PutNs + bytes · PutNsPerByte.
	PutNs        float64 `json:"putNs"`
	PutNsPerByte float64 `json:"putNsPerByte"`
	// Way: the message is there LatencyNs + bytes · WireNsPerByte later. The wires
	// of a node carry one message after the other, its ranks share them.
	LatencyNs     float64 `json:"latencyNs"`
	WireNsPerByte float64 `json:"wireNsPerByte"`
	// Receiver: a Wait costs WaitNs once the message is there, reading the inbox
	// InboxNsPerByte more than reading other memory, and a Release ReleaseNs. The
	// sender learns of it LatencyNs later.
	WaitNs         float64 `json:"waitNs"`
	InboxNsPerByte float64 `json:"inboxNsPerByte"`
	ReleaseNs      float64 `json:"releaseNs"`
}

// A MulticastCost says what the steps on multicast memory cost: each of them,
// each byte, and each byte of each replica. Where the hardware replicates and
// reduces, the last is 0.
type MulticastCost struct {
	Measured string `json:"measured"`

	PutNs                float64 `json:"putNs"`
	PutNsPerByte         float64 `json:"putNsPerByte"`
	PutNsPerByteReplica  float64 `json:"putNsPerByteReplica"`
	PullNs               float64 `json:"pullNs"`
	PullNsPerByte        float64 `json:"pullNsPerByte"`
	PullNsPerByteReplica float64 `json:"pullNsPerByteReplica"`
}

//go:embed model.json
var defaultModelJSON []byte

var parseDefault = sync.OnceValue(func() *Model {
	m, err := ParseModel(defaultModelJSON)
	if err != nil {
		panic(err) // a test parses it
	}
	return m
})

// DefaultModel returns the model that is built in. The caller may change it.
func DefaultModel() *Model {
	m := *parseDefault()
	m.Links = maps.Clone(m.Links)
	return &m
}

// ParseModel reads a model from JSON. Numbers that data leaves out are 0;
// everything else that it gets wrong is an error: names that a model doesn't
// have, missing links, numbers that aren't costs.
func ParseModel(data []byte) (*Model, error) {
	var m Model
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("plan: cost model: %w", describeJSON(data, err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("plan: cost model: something follows the closing brace")
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &m, nil
}

// describeJSON adds the line to errors that have only an offset.
func describeJSON(data []byte, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &typ):
		offset = typ.Offset
	case errors.Is(err, io.EOF):
		return errors.New("no JSON in it")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	}
	if offset < 0 || offset > int64(len(data)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:offset], []byte("\n")), err)
}

// maxCostNs keeps sums of costs far from overflow: nothing that a model
// describes takes a second per step or per byte.
const maxCostNs = 1e9

// Validate says what is wrong with a model.
func (m *Model) Validate() error {
	for _, class := range []string{LinkShm, LinkNet} {
		if _, ok := m.Links[class]; !ok {
			return fmt.Errorf("plan: cost model: no link %q", class)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(m.Links)) {
		if class != LinkShm && class != LinkNet && class != LinkFabric {
			return fmt.Errorf("plan: cost model: unknown link %q, known are %s, %s and %s", class, LinkShm, LinkNet, LinkFabric)
		}
	}
	for _, c := range m.costs() {
		if !(c.ns >= 0 && c.ns <= maxCostNs) { // NaN too
			return fmt.Errorf("plan: cost model: %s is %v, must be from 0 to %g", c.name, c.ns, float64(maxCostNs))
		}
	}
	return nil
}

type namedCost struct {
	name string
	ns   float64
}

// costs lists all numbers of a model.
func (m *Model) costs() []namedCost {
	all := []namedCost{
		{"callNs", m.CallNs}, {"stepNs", m.StepNs}, {"copyNsPerByte", m.CopyNsPerByte},
		{"combineNsPerByte", m.CombineNsPerByte}, {"combineNsPerByteSource", m.CombineNsPerByteSource},
	}
	for _, of := range []struct {
		name string
		cost MulticastCost
	}{{"multicast", m.Multicast}, {"fabricMulticast", m.FabricMulticast}} {
		for _, c := range []namedCost{
			{"putNs", of.cost.PutNs}, {"putNsPerByte", of.cost.PutNsPerByte}, {"putNsPerByteReplica", of.cost.PutNsPerByteReplica},
			{"pullNs", of.cost.PullNs}, {"pullNsPerByte", of.cost.PullNsPerByte}, {"pullNsPerByteReplica", of.cost.PullNsPerByteReplica},
		} {
			all = append(all, namedCost{of.name + "." + c.name, c.ns})
		}
	}
	for _, class := range slices.Sorted(maps.Keys(m.Links)) {
		l := m.Links[class]
		for _, c := range []namedCost{
			{"putNs", l.PutNs}, {"putNsPerByte", l.PutNsPerByte}, {"latencyNs", l.LatencyNs},
			{"wireNsPerByte", l.WireNsPerByte}, {"waitNs", l.WaitNs}, {"inboxNsPerByte", l.InboxNsPerByte},
			{"releaseNs", l.ReleaseNs},
		} {
			all = append(all, namedCost{strings.Join([]string{"links", class, c.name}, "."), c.ns})
		}
	}
	return all
}

// unitModel gives each step the same time, for pictures by step.
func unitModel() *Model {
	l := Link{}
	return &Model{StepNs: 1, Links: map[string]Link{LinkShm: l, LinkNet: l}}
}

// A Topology is the node of each rank. Nil stands for one node.
type Topology []int

// Spread returns a topology of ranks on nodes, in blocks that differ by at most
// one rank.
func Spread(ranks, nodes int) Topology {
	t := make(Topology, ranks)
	nodes = max(1, min(nodes, ranks))
	for r := range t {
		t[r] = r * nodes / ranks
	}
	return t
}

// check says what is wrong with a topology of so many ranks.
func (t Topology) check(ranks int) error {
	if t != nil && len(t) != ranks {
		return fmt.Errorf("plan: the topology has %d ranks, the schedules %d", len(t), ranks)
	}
	for r, node := range t {
		if node < 0 || node > math.MaxInt32 {
			return fmt.Errorf("plan: rank %d is on node %d", r, node)
		}
	}
	return nil
}

func (t Topology) node(rank int) int {
	if t == nil {
		return 0
	}
	return t[rank]
}

// several says whether there is more than one node.
func (t Topology) several() bool {
	for _, node := range t {
		if node != t[0] {
			return true
		}
	}
	return false
}
