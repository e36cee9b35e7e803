package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// find is the index of step k of a kind of a rank.
func find(t *testing.T, s *Schedule, kind Kind, k int) int {
	t.Helper()
	for i, x := range s.Steps {
		if x.Kind == kind {
			if k == 0 {
				return i
			}
			k--
		}
	}
	t.Fatalf("no such step")
	return 0
}

func remove(s *Schedule, i int) { s.Steps = slices.Delete(s.Steps, i, i+1) }

// TestRefused breaks schedules on purpose. Each is refused with a sentence that
// says where, and what is wrong.
func TestRefused(t *testing.T) {
	reduce := Shape{Collective: AllReduce, Ranks: 3, Count: 9, ElemBytes: 4, MessageBytes: 12, Cells: 2}
	pull := Shape{Collective: AllReduce, Ranks: 3, Count: 24, ElemBytes: 4, MessageBytes: 16, Cells: 2}
	gather := Shape{Collective: AllGather, Ranks: 4, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}
	toAll := Shape{Collective: AllToAll, Ranks: 3, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}
	cast := Shape{Collective: Broadcast, Ranks: 3, Count: 40, ElemBytes: 4, MessageBytes: 16, Cells: 2, Root: 1}
	toRoot := Shape{Collective: Gather, Ranks: 4, Count: 3, ElemBytes: 4, MessageBytes: 24, Cells: 2}
	fromRoot := Shape{Collective: Scatter, Ranks: 4, Count: 3, ElemBytes: 4, MessageBytes: 24, Cells: 2, Root: 1}
	blocks := Shape{Collective: ReduceScatter, Ranks: 4, Count: 3, ElemBytes: 4, MessageBytes: 24, Cells: 2}
	scan := Shape{Collective: Scan, Ranks: 3, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}
	exscan := Shape{Collective: Exscan, Ranks: 3, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}
	barrier := Shape{Collective: Barrier, Ranks: 4, ElemBytes: 1, MessageBytes: 16, Cells: 2}
	for _, test := range []struct {
		name      string
		algorithm string
		shape     Shape
		spoil     func(x []*Schedule)
		want      string
	}{
		{"dropped put", "oneshot", reduce, func(x []*Schedule) { remove(x[0], find(t, x[0], Put, 0)) },
			`rank 1, step \d+ \(wait for 3 elements from 0; stage 0, segment 0\): gets the message of stage 0, segment 1`},
		{"dropped last put", "oneshot", reduce, func(x []*Schedule) { remove(x[0], find(t, x[0], Put, 5)) },
			`rank 2, step \d+ \(wait .*\): never ends, as nobody can go on: rank 2 for a message of rank 0`},
		{"dropped wait", "ring", reduce, func(x []*Schedule) { remove(x[1], find(t, x[1], Wait, 0)) },
			`rank 1, step \d+ \(combine .*\): uses inbox 0\[0:3\], where no message is: it came not yet, or was released`},
		{"dropped release", "ring", reduce, func(x []*Schedule) { remove(x[1], find(t, x[1], Release, 0)) },
			`rank 1, step \d+ \(wait for .* from 0; .*\): comes before the message before was released`},
		{"dropped last release", "tree", reduce, func(x []*Schedule) { remove(x[2], len(x[2].Steps)-1) },
			`rank 2: does not release the last message from rank 0`},
		{"dropped combine", "doubling", reduce, func(x []*Schedule) { remove(x[0], find(t, x[0], Combine, 0)) },
			`rank 0, step \d+ \(put to 2 of recv\[0:3\]; .*\): reads recv\[0\], which nobody wrote`},
		{"dropped copy", "direct", gather, func(x []*Schedule) { remove(x[2], find(t, x[2], Copy, 1)) },
			`rank 2: has unwritten memory in recv\[\d+\], where \d@\d must be`},
		{"swapped ranges", "direct", gather, func(x []*Schedule) {
			a, b := find(t, x[1], Copy, 1), find(t, x[1], Copy, 2)
			x[1].Steps[a].Dst, x[1].Steps[b].Dst = x[1].Steps[b].Dst, x[1].Steps[a].Dst
		}, `rank 1: has 3@0 in recv\[0\], where 0@0 must be`},
		{"a range of other elements", "oneshot", reduce, func(x []*Schedule) {
			s := &x[1].Steps[find(t, x[1], Put, 0)]
			s.Srcs[0].From, s.Srcs[0].To = s.Srcs[0].From+1, s.Srcs[0].To+1
		}, `rank 2, step \d+ \(combine .*\): combines different elements: 0@0 and 1@1`},
		{"an element counted twice", "doubling", Shape{Collective: AllReduce, Ranks: 2, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}, func(x []*Schedule) {
			s := &x[0].Steps[find(t, x[0], Combine, 0)]
			s.Srcs[1] = s.Srcs[0]
		}, `rank 0, step \d+ \(combine .*\): counts the contribution of rank 0 twice: 0@0, 0@0`},
		{"a partial result counted twice", "tree", reduce, func(x []*Schedule) {
			i := find(t, x[0], Combine, 0)
			x[0].Steps = slices.Insert(x[0].Steps, i, x[0].Steps[i])
		}, `in place: rank 0, step \d+ \(combine .*\): counts the contribution of rank 1 twice: \(0 1\)@0, 1@0`},
		{"wrong order", "oneshot", reduce, func(x []*Schedule) {
			s := x[2].Steps[find(t, x[2], Combine, 0)].Srcs
			s[0], s[1] = s[1], s[0]
		}, `rank 2: has \(1 0 2\)!@0 in recv\[0\], where \(0 1 2\)!@0 must be`},
		{"wrong nesting", "ring", reduce, func(x []*Schedule) {
			for _, s := range x {
				for i := range s.Steps {
					if c := &s.Steps[i]; c.Kind == Combine {
						slices.Reverse(c.Srcs)
					}
				}
			}
		}, `has \(. \(. .\)\)!@0 in recv\[0\], where \(\(1 2\) 0\)!@0 must be`},
		{"missing complete", "twoshot", reduce, func(x []*Schedule) {
			x[1].Steps[find(t, x[1], Combine, 0)].Complete = false
		}, `has \(0 1 2\)@\d in recv\[\d\], where \(0 1 2\)!@\d must be`},
		{"early complete", "ring", reduce, func(x []*Schedule) {
			x[1].Steps[find(t, x[1], Combine, 0)].Complete = true
		}, `rank 1, step \d+ \(combine .* \(complete\); .*\): is called complete with 2 of 3 contributions`},
		{"twice complete", "oneshot", reduce, func(x []*Schedule) {
			i := find(t, x[1], Combine, 0)
			x[1].Steps = slices.Insert(x[1].Steps, i, x[1].Steps[i])
		}, `in place: rank 1, step \d+ .*: combines \(0 1 2\)!@0, which is complete, once more`},
		{"wrong length", "direct", gather, func(x []*Schedule) { x[3].Steps[find(t, x[3], Wait, 0)].Elems++ },
			`rank 3, step \d+ \(wait for 4 elements from 2; .*\): gets a message of 3 elements`},
		{"long message", "direct", gather, func(x []*Schedule) {
			for _, s := range x {
				s.Shape.MessageBytes = 8
			}
		}, `rank 0, step 0 \(put .*\): puts 3 elements, where a message holds 2`},
		{"release before the last use", "direct", gather, func(x []*Schedule) {
			i := find(t, x[0], Release, 0)
			x[0].Steps[i], x[0].Steps[i-1] = x[0].Steps[i-1], x[0].Steps[i]
		}, `rank 0, step \d+ \(copy .*\): uses inbox 3\[0:3\], where no message is`},
		{"put of memory that was written again", "bruck", toAll, func(x []*Schedule) {
			// The last put takes from Scratch; what it takes is overwritten before.
			i := find(t, x[0], Put, 1)
			src := x[0].Steps[i].Srcs[0]
			x[0].Steps = slices.Insert(x[0].Steps, i, Step{Kind: Copy, Dst: src, Srcs: []Range{{Buf: Send, From: 0, To: src.Len()}}})
		}, `has 0@0 in recv\[\d+\], where 0@\d must be|has \d@\d in recv\[\d+\]`},
		{"received too early in place", "direct", toAll, func(x []*Schedule) {
			// Wait, copy and release of the first message before the last put.
			s := x[0].Steps
			put := find(t, x[0], Put, 1)
			wait := find(t, x[0], Wait, 0)
			moved := slices.Clone(s[wait : wait+3])
			s = slices.Delete(s, wait, wait+3)
			x[0].Steps = slices.Insert(s, put, moved...)
		}, `in place: rank 2: has 2@0 in recv\[0\], where 0@6 must be`},
		{"deadlock for want of cells", "ring", pull, func(x []*Schedule) {
			for _, s := range x {
				s.Shape.Cells = 1
			}
		}, `never ends, as nobody can go on: rank 0 for a free cell at rank 1`},
		{"deadlock of waits before puts", "doubling", Shape{Collective: AllReduce, Ranks: 2, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}, func(x []*Schedule) {
			for _, s := range x {
				s.Steps[0], s.Steps[1] = s.Steps[1], s.Steps[0]
			}
		}, `rank 0, step 0 \(wait .*\): never ends, as nobody can go on: rank 0 for a message of rank 1, rank 1 for a message of rank 0`},
		{"message too many", "direct", barrier, func(x []*Schedule) { x[1].Steps = append(x[1].Steps, x[1].Steps[0]) },
			`rank 2: does not wait for 1 messages from rank 1, the first of stage 0, segment 0`},
		{"barrier that does not wait", "dissemination", barrier, func(x []*Schedule) {
			// Messages of the second round, all of them, fail to be sent.
			for _, s := range x {
				s.Steps = s.Steps[:3]
			}
		}, `rank \d: ends before it knows that rank \d began`},
		{"missing signal before a pull", "multimem", pull, func(x []*Schedule) {
			remove(x[0], find(t, x[0], Put, 1)) // to rank 2, in the first stage
			remove(x[2], find(t, x[2], Wait, 1))
			remove(x[2], find(t, x[2], Release, 1))
		}, `rank 2, step \d+ \(pull-reduce .*\): touches the replica of rank 0 before it knows that rank 0 began the call`},
		{"missing signal before a copy out", "multimem", pull, func(x []*Schedule) {
			remove(x[0], find(t, x[0], Put, 7)) // to rank 2, in the second stage of the last segment
			remove(x[2], find(t, x[2], Wait, 7))
			remove(x[2], find(t, x[2], Release, 7))
		}, `rank 2, step \d+ \(copy recv.* ← board 0.*\): reads board\[\d+\] of rank 2 with no message between that and step \d+ of rank 0 \(put-multi .*\)`},
		{"a put after the last signal", "multimem", cast, func(x []*Schedule) {
			x[0].Steps = append(x[0].Steps, Step{Kind: PutMulti, Dst: Range{Buf: Board, Peer: 0, To: 4}, Srcs: []Range{{Buf: Recv, To: 4}}})
		}, `rank 1: ends before it knows that rank 0 is through with its replica`},
		{"a posting that not all hear of", "multimem", cast, func(x []*Schedule) {
			// Rank 0 hears of the last one by rank 2, which was told.
			last := len(x[1].Steps) - 1
			put := x[1].Steps[last] // to rank 0
			remove(x[1], last)
			wait := len(x[0].Steps) - 1
			for ; x[0].Steps[wait].Kind != Wait; wait-- {
			}
			x[0].Steps[wait].Peer, x[0].Steps[wait+1].Peer = 2, 2
			x[2].Steps = append(x[2].Steps, put)
		}, `rank 0, step \d+ \(copy .*\): reads board\[0\] of rank 1, of which no message from that rank has told`},
		{"a posting that one hears of from another", "multimem", cast, func(x []*Schedule) {
			i := len(x[2].Steps) - 1
			for ; x[2].Steps[i].Kind != Put; i-- {
			}
			x[2].Steps = slices.Insert(x[2].Steps, i, Step{Kind: PutMulti, Dst: Range{Buf: Board, Peer: 2, To: 4}, Srcs: []Range{{Buf: Recv, To: 4}}})
		}, `rank 0: ends before a message told it of the last posting of rank 2`},
		{"its own posting before a message", "multimem", pull, func(x []*Schedule) {
			i := find(t, x[0], PutMulti, 0)
			dst := x[0].Steps[i].Dst
			x[0].Steps = slices.Insert(x[0].Steps, i+1, Step{Kind: Copy, Dst: Range{Buf: Recv, To: dst.Len()}, Srcs: []Range{dst}})
		}, `rank 0, step \d+ \(copy recv.* ← board 0.*\): reads board\[\d+\] of rank 0, of which no message from that rank has told`},
		{"a put to all overwritten", "multimem", pull, func(x []*Schedule) {
			i := find(t, x[0], PutMulti, 0)
			src := x[0].Steps[i].Srcs[0]
			x[0].Steps = slices.Insert(x[0].Steps, i+1, Step{Kind: Copy, Dst: src, Srcs: []Range{{Buf: Send, To: src.Len()}}})
		}, `rank 0, step \d+ \(copy scratch.*\): overwrites scratch.*, which is put to all and not waited for`},
		{"a posting in two parts with a message between", "multimem", pull, func(x []*Schedule) {
			i := find(t, x[0], PutMulti, 0)
			s := x[0].Steps[i]
			half := s
			half.Srcs = []Range{s.Srcs[0]}
			half.Dst.To, half.Srcs[0].To = s.Dst.From+1, s.Srcs[0].From+1
			x[0].Steps = append(x[0].Steps, half)
		}, `(with no message between|ends before)`},
		{"another's board", "multimem", pull, func(x []*Schedule) {
			x[0].Steps[find(t, x[0], PutMulti, 0)].Dst.Peer = 1
		}, `rank 0, step \d+ \(put-multi .*\): must post the caller's memory or Scratch, on the rank's own board`},
		{"two cells at once", "multimem", cast, func(x []*Schedule) {
			s := &x[0].Steps[find(t, x[0], Copy, 0)]
			s.Srcs[0].From, s.Srcs[0].To = 2, 18
		}, `rank 0, step \d+ \(copy .*\): uses board 1\[2:18\], which is in several cells of 16 elements`},
		{"a board reduced", "multimem", pull, func(x []*Schedule) {
			s := &x[0].Steps[find(t, x[0], Copy, 2)]
			s.Kind, s.Srcs = Combine, []Range{s.Srcs[0], s.Srcs[0]}
		}, `rank 0, step \d+ \(combine .*\): reads board .*, which only a copy may`},
		{"copy in after the signal", "multimem", pull, func(x []*Schedule) {
			s := x[1].Steps
			s[0], s[1] = s[1], s[0]
			s[1], s[2] = s[2], s[1]
		}, `rank \d, step \d+ .*: .*(nobody wrote|with no message between|reads memory)`},
		{"put to replicas without a signal", "multimem", cast, func(x []*Schedule) {
			remove(x[1], find(t, x[1], Put, 0))
			to := 2
			remove(x[to], find(t, x[to], Wait, 0))
			remove(x[to], find(t, x[to], Release, 0))
		}, `rank 2, step \d+ \(copy recv\[0:\d+\] ← board 1\[0:\d+\]; .*\): reads board\[0\] of rank 2 with no message between that and step \d+ of rank 1 \(put-multi|which the latest posting does not have`},
		{"memory used again too early", "multimem", cast, func(x []*Schedule) {
			// In the third segment the root does not ask rank 2 whether the first is read.
			third := func(x Step) bool {
				return x.Segment == 2 && x.Stage == 0 && x.Kind != PutMulti && (x.Peer == 2 || x.Kind == Put)
			}
			for _, s := range x[1:] {
				s.Steps = slices.DeleteFunc(s.Steps, third)
			}
		}, `rank 1, step \d+ \(put-multi board 1\[0:4\] ← recv\[28:32\]; stage 0, segment 2\): writes board\[0\] of rank 2 with no message between that and step \d+ of rank 2 \(copy recv\[0:16\] ← board 1\[0:16\]\)`},
		{"unaligned multicast", "multimem", cast, func(x []*Schedule) {
			s := &x[1].Steps[find(t, x[1], PutMulti, 0)]
			s.Dst.From, s.Dst.To = s.Dst.From+1, s.Dst.To+1
		}, `rank 1, step \d+ \(put-multi .*\): has board 1\[1:5\], which does not begin at a multiple of 16 bytes|which is in several cells`},
		{"send written to", "oneshot", reduce, func(x []*Schedule) {
			x[0].Steps = append(x[0].Steps, Step{Kind: Copy, Dst: Range{Buf: Send, To: 1}, Srcs: []Range{{Buf: Recv, To: 1}}})
		}, `rank 0, step \d+ \(copy send.*\): writes to send\[0:1\], which may only be read`},
		{"memory outside", "oneshot", reduce, func(x []*Schedule) {
			s := &x[0].Steps[find(t, x[0], Put, 0)]
			s.Srcs[0].From, s.Srcs[0].To = 7, 10
		}, `rank 0, step 0 .*: uses send\[7:10\] of 9 elements`},
		{"result of a reduce elsewhere", "tree", Shape{Collective: Reduce, Ranks: 4, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}, func(x []*Schedule) {
			x[2].Steps[find(t, x[2], Combine, 0)].Dst.Buf = Recv
		}, `rank 2, step \d+ .*: uses recv\[0:3\] of 0 elements`},
		{"overlap", "direct", gather, func(x []*Schedule) {
			x[0].Steps = append(x[0].Steps, Step{Kind: Copy, Dst: Range{Buf: Recv, To: 3}, Srcs: []Range{{Buf: Recv, From: 1, To: 4}}})
		}, `rank 0, step \d+ .*: has recv\[1:4\] as a source, which overlaps recv\[0:3\]`},
		{"more than claimed", "direct", gather, func(x []*Schedule) {
			// A message more, of both sides.
			put := x[0].Steps[0]
			x[0].Steps = append([]Step{put}, x[0].Steps...)
			wait := find(t, x[1], Wait, 0)
			for x[1].Steps[wait].Peer != 0 {
				wait++
			}
			x[1].Steps = append(x[1].Steps, x[1].Steps[wait:wait+3]...)
		}, `takes 39 elements sent, where the algorithm claims 36`},
		{"a subtree sent before it is there", "tree", toRoot, func(x []*Schedule) {
			i, put := find(t, x[2], Wait, 0), find(t, x[2], Put, 0)
			s := x[2].Steps
			s[i], s[i+1], s[i+2], s[put] = s[put], s[i], s[i+1], s[i+2]
		}, `rank 2, step \d+ \(put to 0 of scratch\[0:6\]; .*\): reads scratch\[3\], which nobody wrote`},
		{"blocks of a subtree exchanged", "tree", toRoot, func(x []*Schedule) {
			s := x[2].Steps
			a, b := find(t, x[2], Copy, 0), find(t, x[2], Copy, 1)
			s[a].Dst, s[b].Dst = s[b].Dst, s[a].Dst
		}, `rank 0: has 3@0 in recv\[6\], where 2@0 must be`},
		{"gathered by a rank that is not the root", "direct", toRoot, func(x []*Schedule) {
			x[1].Steps = append(x[1].Steps, Step{Kind: Copy, Dst: Range{Buf: Recv, To: 3}, Srcs: []Range{{Buf: Send, To: 3}}})
		}, `rank 1, step 1 .*: uses recv\[0:3\] of 0 elements`},
		{"own block left out", "direct", toRoot, func(x []*Schedule) { remove(x[0], find(t, x[0], Copy, 0)) },
			`rank 0: has unwritten memory in recv\[0\], where 0@0 must be`},
		{"another's block", "direct", fromRoot, func(x []*Schedule) {
			a, b := find(t, x[1], Put, 0), find(t, x[1], Put, 1)
			s := x[1].Steps
			s[a].Srcs, s[b].Srcs = s[b].Srcs, s[a].Srcs
		}, `rank 2: has 1@9 in recv\[0\], where 1@6 must be`},
		{"scattered from what others gave", "tree", fromRoot, func(x []*Schedule) {
			x[3].Steps[find(t, x[3], Copy, 0)].Srcs[0] = Range{Buf: Send, To: 3}
		}, `rank 3, step \d+ .*: uses send\[0:3\] of 0 elements`},
		{"another's block reduced", "direct", blocks, func(x []*Schedule) {
			s := &x[1].Steps[find(t, x[1], Put, 0)]
			s.Srcs[0].From, s.Srcs[0].To = 0, 3
		}, `rank 2, step \d+ \(combine .*\): combines different elements: 0@6 and 1@0`},
		{"own block reduced out of place only", "direct", blocks, func(x []*Schedule) {
			s := x[2].Steps
			i := find(t, x[2], Combine, 0)
			x[2].Steps = slices.Insert(s, i, Step{Kind: Copy, Dst: Range{Buf: Recv, To: 3}, Srcs: []Range{{Buf: Inbox, Peer: 0, To: 3}}})
		}, `in place: rank 2, step \d+ \(combine .*\): counts the contribution of rank 0 twice`},
		{"a block of which a half is missing", "halving", blocks, func(x []*Schedule) {
			c := &x[1].Steps[find(t, x[1], Combine, 0)]
			c.Kind, c.Srcs = Copy, c.Srcs[:1]
		}, `is called complete with 3 of 4 contributions`},
		{"a rank missing from a prefix", "direct", scan, func(x []*Schedule) {
			c := &x[2].Steps[find(t, x[2], Combine, 0)]
			c.Srcs = c.Srcs[:2]
		}, `rank 2: has \(0 1\)@0 in recv\[0\], where \(0 1 2\)@0 must be`},
		{"a rank too many in a prefix", "direct", exscan, func(x []*Schedule) {
			c := &x[2].Steps[find(t, x[2], Combine, 0)]
			c.Srcs = append(c.Srcs, Range{Buf: Send, To: 3})
		}, `rank 2: has \(0 1 2\)@0 in recv\[0\], where \(0 1\)@0 must be`},
		{"a complete prefix", "chain", scan, func(x []*Schedule) { x[2].Steps[find(t, x[2], Combine, 0)].Complete = true },
			`rank 2, step \d+ \(combine .* \(complete\); .*\): is called complete, which nothing is in a collective of prefixes: scan`},
		{"a prefix nested otherwise", "doubling", Shape{Collective: Scan, Ranks: 4, Count: 3, ElemBytes: 4, MessageBytes: 12, Cells: 2}, func(x []*Schedule) {
			// Rank 3 adds ranks 0 and 1 to its own before rank 2.
			s := x[3].Steps
			first, second := find(t, x[3], Wait, 0), find(t, x[3], Wait, 1)
			x[3].Steps = slices.Concat(s[:first], s[second:second+3], s[first:first+3], s[second+3:])
			a, b := &x[3].Steps[first+1], &x[3].Steps[first+4]
			a.Srcs[1], b.Srcs[1] = b.Srcs[1], a.Srcs[1]
		}, `rank 3: has \(2 \(\(0 1\) 3\)\)@0 in recv\[0\], where \(\(0 1\) \(2 3\)\)@0 must be`},
		{"a result of rank 0", "chain", exscan, func(x []*Schedule) {
			x[0].Steps = append(x[0].Steps, Step{Kind: Copy, Dst: Range{Buf: Recv, To: 3}, Srcs: []Range{{Buf: Send, To: 3}}})
		}, `rank 0, step 1 .*: uses recv\[0:3\] of 0 elements`},
		{"a prefix kept before it is passed on", "chain", exscan, func(x []*Schedule) {
			i, j := find(t, x[1], Combine, 0), find(t, x[1], Copy, 0)
			x[1].Steps[i], x[1].Steps[j] = x[1].Steps[j], x[1].Steps[i]
		}, `in place: rank 1, step \d+ \(combine .*\): counts the contribution of rank 0 twice: 0@0, 0@0`},
		{"another shape", "direct", gather, func(x []*Schedule) { x[1].Shape.Count++ },
			`rank 1: the schedule is of another rank, algorithm or shape`},
		{"a lane to itself", "direct", gather, func(x []*Schedule) { x[1].Steps[0].Peer = 1 },
			`rank 1, step 0 .*: has peer 1, to which there is no lane`},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := clone(all(t, test.algorithm, test.shape))
			require.NoError(t, VerifyCalls(2, x))
			test.spoil(x)
			err := Verify(x)
			require.Error(t, err)
			require.ErrorAs(t, err, new(*VerifyError))
			require.Regexp(t, test.want, err.Error())
			t.Log(err)
		})
	}
}
