package collectives

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/comm"
)

// A use is memory that a call reads or writes.
type use struct {
	from, to uintptr
	writes   bool
}

// uses appends what a call uses on this rank. What it writes may be given as more
// than it is.
func (o *operation) uses(list []use) []use {
	dst := o.dst
	if o.kind == plan.Reduce && o.c.Rank() != o.call.Root {
		dst = nil // ignored
	}
	a, b := useOf(dst, true), useOf(o.src, false)
	switch {
	case a.from < b.to && b.from < a.to: // in place, or one is a block of the other
		return append(list, use{min(a.from, b.from), max(a.to, b.to), true})
	case a.from < a.to:
		list = append(list, a)
	}
	if b.from < b.to {
		list = append(list, b)
	}
	return list
}

func useOf(b []byte, writes bool) use {
	if len(b) == 0 {
		return use{} // wherever it is
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return use{at, at + uintptr(len(b)), writes}
}

// independent says whether no call writes what another one uses. list is room.
func independent(ops []operation, list *[]use) bool {
	all := (*list)[:0]
	for i := range ops {
		all = ops[i].uses(all)
	}
	*list = all
	slices.SortFunc(all, func(a, b use) int { return cmp.Compare(a.from, b.from) })
	var read, written uintptr // up to where, by those before
	for _, u := range all {
		switch {
		case u.from < written, u.writes && u.from < read:
			return false
		case u.writes:
			written = u.to
		default:
			read = max(read, u.to)
		}
	}
	return true
}

// apartInGroup says whether the messages of a group have their memory for
// themselves: what one receives into nobody else uses, what one sends nobody writes.
func apartInGroup(ops []operation, messages []message) bool {
	if len(messages) == 0 {
		return true
	}
	type owned struct {
		use
		message bool
	}
	var all []owned
	for i := range ops {
		for _, u := range ops[i].uses(nil) {
			all = append(all, owned{u, false})
		}
	}
	for i := range messages {
		m := &messages[i]
		if u := useOf(m.buf, m.call.Collective == comm.OpRecv); u.from < u.to {
			all = append(all, owned{u, true})
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.from, b.from) })
	var to [2][2]uintptr // up to where, by those before: of calls or messages, read or written
	index := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	for _, u := range all {
		for of := range to {
			for write := range to[of] {
				meets := u.from < to[of][write] && (u.writes || write == 1)
				if meets && (u.message || of == 1) {
					return false
				}
			}
		}
		last := &to[index(u.message)][index(u.writes)]
		*last = max(*last, u.to)
	}
	return true
}

// independentCalls is the number of calls at the beginning of ops that are
// independent: the longest such beginning, found in the time of sorting it twice.
func independentCalls(ops []operation, list *[]use) int {
	good, bad := min(1, len(ops)), len(ops)+1 // the first good calls are, the first bad are not
	for n := 2; good < len(ops); n *= 2 {
		n = min(n, len(ops))
		if !independent(ops[:n], list) {
			bad = n
			break
		}
		good = n
	}
	for bad-good > 1 && good < len(ops) {
		if n := good + (bad-good)/2; independent(ops[:n], list) {
			good = n
		} else {
			bad = n
		}
	}
	return good
}

// cutsOf divides the calls of a group so that those between two cuts, or
// barriers, are independent on this rank.
func cutsOf(ops []operation) bitmap {
	cuts := newBitmap(len(ops))
	list := make([]use, 0, 2*len(ops))
	for from := 0; from < len(ops); {
		to := len(ops)
		if i := slices.IndexFunc(ops[from:], func(o operation) bool { return o.kind == plan.Barrier }); i >= 0 {
			to = from + i + 1
		}
		n := independentCalls(ops[from:to], &list)
		if from += n; from < to {
			cuts.set(from)
		}
	}
	return cuts
}

// A bitmap is a set of small numbers.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (m bitmap) has(i int) bool { return i/64 < len(m) && m[i/64]>>(i%64)&1 != 0 }
func (m bitmap) set(i int)      { m[i/64] |= 1 << (i % 64) }

// first is the least number in the set, or n.
func (m bitmap) first(n int) int {
	for i := range n {
		if m.has(i) {
			return i
		}
	}
	return n
}
