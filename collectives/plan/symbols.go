package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A value is what an element of memory holds in a symbolic execution: an index
// of symbols, where equal expressions have equal indices. The zero value is
// memory that nobody wrote.
type value int32

// symbols are all expressions that came up.
type symbols struct {
	ranks int
	words int // of a set of ranks
	nodes []node
	lists []value  // sources of all nodes
	sets  []uint64 // ranks whose contributions are in a node, words each
	index map[uint64]value
	mark  []uint64 // a set to work with
}

type node struct {
	call, elem int32 // of the contributions; in block order where there are blocks
	rank       int32 // of a leaf
	complete   bool
	from, to   int32 // in lists; none: a leaf
	next       value // with the same hash
}

func newSymbols(ranks int) *symbols {
	s := &symbols{ranks: ranks, words: ceil(ranks, 64), index: map[uint64]value{}}
	s.mark = make([]uint64, s.words)
	s.nodes = make([]node, 1)
	s.sets = make([]uint64, s.words)
	return s
}

func (s *symbols) set(v value) []uint64 {
	return s.sets[int(v)*s.words : (int(v)+1)*s.words]
}

// contributions is the number of ranks in a value.
func (s *symbols) contributions(v value) int {
	n := 0
	for _, word := range s.set(v) {
		n += bits.OnesCount64(word)
	}
	return n
}

// leaf is element elem of what rank gives to a call.
func (s *symbols) leaf(call, rank, elem int) value {
	v := s.intern(node{call: int32(call), rank: int32(rank), elem: int32(elem)}, nil)
	s.set(v)[rank/64] |= 1 << (rank % 64)
	return v
}

// combine is the reduction of list, which must be legal.
func (s *symbols) combine(list []value, complete bool) value {
	first := s.nodes[list[0]]
	v := s.intern(node{call: first.call, elem: first.elem, complete: complete}, list)
	for _, x := range list {
		for i, word := range s.set(x) {
			s.sets[int(v)*s.words+i] |= word
		}
	}
	return v
}

// refuse says why list must not be combined, or nothing.
func (s *symbols) refuse(list []value, complete bool) string {
	clear(s.mark)
	total := 0
	for _, v := range list {
		if v == 0 {
			return "reads memory that nobody wrote"
		}
		a, b := s.nodes[list[0]], s.nodes[v]
		if a.call != b.call {
			return fmt.Sprintf("combines %s with %s, which is of another call", s.text(list[0]), s.text(v))
		}
		if a.elem != b.elem {
			return fmt.Sprintf("combines different elements: %s and %s", s.text(list[0]), s.text(v))
		}
		if b.complete {
			return fmt.Sprintf("combines %s, which is complete, once more", s.text(v))
		}
		for i, word := range s.set(v) {
			if twice := s.mark[i] & word; twice != 0 {
				return fmt.Sprintf("counts the contribution of rank %d twice: %s", bits.TrailingZeros64(twice)+64*i, s.texts(list))
			}
			s.mark[i] |= word
		}
		total += s.contributions(v)
	}
	if complete && total != s.ranks {
		return fmt.Sprintf("is called complete with %d of %d contributions: %s", total, s.ranks, s.texts(list))
	}
	return ""
}

func (s *symbols) intern(n node, list []value) value {
	h := mix(mix(mix(uint64(n.call), uint64(n.elem)), uint64(n.rank)), uint64(len(list)))
	if n.complete {
		h = mix(h, 1)
	}
	for _, v := range list {
		h = mix(h, uint64(v))
	}
	head := s.index[h]
	for v := head; v != 0; v = s.nodes[v].next {
		m := s.nodes[v]
		if m.call == n.call && m.elem == n.elem && m.rank == n.rank && m.complete == n.complete &&
			slices.Equal(s.lists[m.from:m.to], list) {
			return v
		}
	}
	n.from = int32(len(s.lists))
	s.lists = append(s.lists, list...)
	n.to = int32(len(s.lists))
	n.next = head
	v := value(len(s.nodes))
	s.nodes = append(s.nodes, n)
	for range s.words {
		s.sets = append(s.sets, 0)
	}
	s.index[h] = v
	return v
}

func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// ordered is an element reduced in an order.
func (s *symbols) ordered(o *order, call, elem int, top bool) value {
	if o.of == nil {
		return s.leaf(call, o.rank, elem)
	}
	list := make([]value, len(o.of))
	for i, x := range o.of {
		list[i] = s.ordered(x, call, elem, false)
	}
	return s.combine(list, top)
}

// text is like "((0 1) 2)!@5", the reduction, complete, of element 5.
func (s *symbols) text(v value) string {
	if v == 0 {
		return "unwritten memory"
	}
	n := s.nodes[v]
	text := s.tree(v)
	if n.complete {
		text += "!"
	}
	text = fmt.Sprintf("%s@%d", text, n.elem)
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return text
}

func (s *symbols) tree(v value) string {
	n := s.nodes[v]
	if n.from == n.to {
		return fmt.Sprint(n.rank)
	}
	var list []string
	for _, x := range s.lists[n.from:n.to] {
		list = append(list, s.tree(x))
	}
	return "(" + strings.Join(list, " ") + ")"
}

func (s *symbols) texts(list []value) string {
	var texts []string
	for _, v := range list {
		texts = append(texts, s.text(v))
	}
	return strings.Join(texts, ", ")
}
