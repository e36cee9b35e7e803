package plan

import "fmt"

// checkStep says what is wrong with a step on its own, or nothing.
func (m *machine) checkStep(p *process, s *Step) string {
	if s.Kind < Copy || s.Kind > PutMulti {
		return "is no kind of step"
	}
	if s.Complete && s.Kind != Combine && s.Kind != PullReduce {
		return "reduces nothing and is called complete"
	}
	if s.Complete && m.shape.Collective.scans() {
		return fmt.Sprintf("is called complete, which nothing is in a collective of prefixes: %v", m.shape.Collective)
	}
	if s.Kind == Put || s.Kind == Wait || s.Kind == Release {
		if s.Peer < 0 || s.Peer >= m.shape.Ranks || s.Peer == p.rank {
			return fmt.Sprintf("has peer %d, to which there is no lane", s.Peer)
		}
	}
	if s.Kind == Wait || s.Kind == Release {
		return ""
	}
	if len(s.Srcs) == 0 || len(s.Srcs) > 1 && s.Kind != Combine {
		return fmt.Sprintf("has %d sources", len(s.Srcs))
	}
	for _, r := range s.Srcs {
		if why := m.checkRange(p, r); why != "" {
			return why
		}
		if r.Buf == Board && s.Kind != Copy {
			return fmt.Sprintf("reads %v, which only a copy may", r)
		}
	}
	if s.Kind == Put {
		if most := m.shape.message(); s.Srcs[0].Len() > most {
			return fmt.Sprintf("puts %d elements, where a message holds %d", s.Srcs[0].Len(), most)
		}
		return ""
	}
	if why := m.checkRange(p, s.Dst); why != "" {
		return why
	}
	if s.Dst.Buf == Send || s.Dst.Buf == Inbox || s.Dst.Buf == Board && s.Kind != PutMulti {
		return fmt.Sprintf("writes to %v, which may only be read", s.Dst)
	}
	for _, r := range s.Srcs {
		if r.Len() != s.Dst.Len() {
			return fmt.Sprintf("has %v, of %d elements, as a source for %d", r, r.Len(), s.Dst.Len())
		}
		if m.overlap(p, s.Dst, r) {
			return fmt.Sprintf("has %v as a source, which overlaps %v", r, s.Dst)
		}
	}
	switch s.Kind {
	case Combine:
		if len(s.Srcs) < 2 {
			return "combines one source"
		}
	case PullReduce:
		if s.Srcs[0].Buf != Multi || s.Dst.Buf == Multi {
			return "must reduce what ranks contribute to another buffer"
		}
		return first(m.checkMulti(p, s.Srcs[0]), m.checkMulti(p, s.Dst))
	case PutMulti:
		if s.Dst.Buf != Board || s.Dst.Peer != p.rank || s.Srcs[0].Buf == Multi || s.Srcs[0].Buf == Inbox {
			return "must post the caller's memory or Scratch, on the rank's own board"
		}
		return first(m.checkMulti(p, s.Dst), m.checkMulti(p, s.Srcs[0]))
	}
	if s.Kind == Combine && !m.shape.Collective.reduces() {
		return fmt.Sprintf("reduces in a collective that does not: %v", m.shape.Collective)
	}
	return ""
}

func (m *machine) checkRange(p *process, r Range) string {
	size := 0
	switch r.Buf {
	case Send, Recv, Scratch, Multi:
		size = len(p.mem[r.Buf].of)
	case Inbox:
		if r.Peer < 0 || r.Peer >= m.shape.Ranks || !p.inbox[r.Peer].full {
			return fmt.Sprintf("uses %v, where no message is: it came not yet, or was released", r)
		}
		size = len(p.inbox[r.Peer].of)
	case Board:
		cell := m.cell()
		if size = Slots * cell; r.Peer < 0 || r.Peer >= m.shape.Ranks {
			return fmt.Sprintf("uses %v, where there is no rank", r)
		}
		if r.From >= 0 && r.To > r.From && r.To <= size && r.From/cell != (r.To-1)/cell {
			return fmt.Sprintf("uses %v, which is in several cells of %d elements", r, cell)
		}
	default:
		return fmt.Sprintf("names %v", r.Buf)
	}
	if r.From < 0 || r.To < r.From || r.To > size {
		return fmt.Sprintf("uses %v of %d elements", r, size)
	}
	return ""
}

// checkMulti checks what hardware demands of a range that is moved to or from
// multicast memory: whole granules, unless it is the caller's memory.
func (m *machine) checkMulti(p *process, r Range) string {
	u := m.shape.unit()
	switch most := max(m.shape.MessageBytes, u*m.shape.ElemBytes); {
	case r.Buf != Multi && r.Buf != Scratch && r.Buf != Board:
	case r.From%u != 0:
		return fmt.Sprintf("has %v, which does not begin at a multiple of %d bytes", r, granule)
	case r.Buf != Board && roundUp(r.To, u) > len(p.mem[r.Buf].of): // cells are whole granules
		return fmt.Sprintf("has %v, with no room behind it to fill %d bytes", r, granule)
	case r.Len()*m.shape.ElemBytes > most:
		return fmt.Sprintf("has %v of %d bytes, where a message holds %d", r, r.Len()*m.shape.ElemBytes, most)
	}
	return ""
}

// first is the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// overlap says whether two ranges share memory without being the same.
func (m *machine) overlap(p *process, a, b Range) bool {
	return m.meet(p, a, b) && a.From+p.mem[a.Buf].base != b.From+p.mem[b.Buf].base
}

// meet says whether two ranges share memory. Those of an Inbox or a Board share none
// with what a step may write to.
func (m *machine) meet(p *process, a, b Range) bool {
	own := func(r Range) bool { return r.Buf != Inbox && r.Buf != Board }
	if !own(a) || !own(b) || p.mem[a.Buf].id != p.mem[b.Buf].id {
		return false
	}
	from, to := a.From+p.mem[a.Buf].base, a.To+p.mem[a.Buf].base
	from2, to2 := b.From+p.mem[b.Buf].base, b.To+p.mem[b.Buf].base
	return max(from, from2) < min(to, to2)
}
