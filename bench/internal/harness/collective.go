package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-go/weft/kernels"
)

// A collective is what the harness knows of one.
type collective struct {
	name     string // in flags and results
	title    string // as nccl-tests calls the program
	kind     kind
	reduces  bool
	noAvg    bool // Avg is not among its operators
	rooted   bool
	sendPer  bool // the source has a block for every rank
	recvPer  bool // the destination has
	oneSided bool // there is one buffer, so it is in place or not at all
	hostOnly bool // there is none on GPUs
}

type kind int

// The order is that of loop.h.
const (
	allReduce kind = iota
	reduce
	broadcast
	reduceScatter
	allGather
	allToAll
	gather
	scatter
	scan
	barrier
)

var collectivesTable = []collective{
	{name: "allreduce", title: "all_reduce_perf", kind: allReduce, reduces: true},
	{name: "reduce", title: "reduce_perf", kind: reduce, reduces: true, rooted: true},
	{name: "broadcast", title: "broadcast_perf", kind: broadcast, rooted: true, oneSided: true},
	{name: "reducescatter", title: "reduce_scatter_perf", kind: reduceScatter, reduces: true, sendPer: true},
	{name: "allgather", title: "all_gather_perf", kind: allGather, recvPer: true},
	{name: "alltoall", title: "alltoall_perf", kind: allToAll, sendPer: true, recvPer: true},
	{name: "gather", title: "gather_perf", kind: gather, rooted: true, recvPer: true, hostOnly: true},
	{name: "scatter", title: "scatter_perf", kind: scatter, rooted: true, sendPer: true, hostOnly: true},
	{name: "scan", title: "scan_perf", kind: scan, reduces: true, noAvg: true, hostOnly: true},
	{name: "barrier", title: "barrier_perf", kind: barrier, oneSided: true},
}

// parseCollectives reads "allreduce", "all_reduce,alltoall" or "all".
func parseCollectives(s string) ([]*collective, error) {
	var found []*collective
	for _, name := range strings.Split(s, ",") {
		plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
		plain = strings.TrimSuffix(plain, "perf")
		n := len(found)
		for i := range collectivesTable {
			if c := &collectivesTable[i]; c.name == plain || plain == "all" {
				found = append(found, c)
			}
		}
		if len(found) == n {
			return nil, fmt.Errorf("collective %q; known are %s, all", name, collectiveNames())
		}
	}
	return found, nil
}

func collectiveNames() string {
	var names []string
	for _, c := range collectivesTable {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// operators are those of ops that the collective has; a single one if it
// reduces nothing.
func (c *collective) operators(ops []kernels.Op) []kernels.Op {
	if !c.reduces {
		return ops[:1]
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op kernels.Op) bool { return c.noAvg && op == kernels.Avg })
}

// blocks says whether some rank has a block for, or from, every other. The size
// is that of all blocks together then.
func (c *collective) blocks() bool { return c.sendPer || c.recvPer }

// perRank is the number of elements that one rank gives to, or gets from, one
// other, if the table is to say size bytes, by nccl-tests' conventions. At least
// one element.
func (c *collective) perRank(size int64, elem, ranks int) int64 {
	if c.kind == barrier {
		return 0
	}
	n := size / int64(elem)
	if c.blocks() {
		n /= int64(ranks)
	}
	return max(n, 1)
}

// bytes is the size that the table shows for so many elements per rank.
func (c *collective) bytes(count int64, elem, ranks int) int64 {
	if c.blocks() {
		count *= int64(ranks)
	}
	return count * int64(elem)
}

// busFactor is what algbw is multiplied with to give busbw: the part of the
// size that the busiest link must carry whatever the algorithm. 0: none; Scan has
// none since nccl-tests does not know it.
func (c *collective) busFactor(ranks int) float64 {
	n := float64(ranks)
	switch {
	case ranks < 2 || c.kind == barrier || c.kind == scan:
		return 0
	case c.kind == allReduce:
		return 2 * (n - 1) / n
	case c.blocks():
		return (n - 1) / n
	}
	return 1
}

// elements returns the lengths of source and destination for count per rank.
func (c *collective) elements(count int64, ranks int) (src, dst int64) {
	src, dst = count, count
	if c.sendPer {
		src *= int64(ranks)
	}
	if c.recvPer {
		dst *= int64(ranks)
	}
	return src, dst
}
