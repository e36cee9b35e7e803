package plan

// grouped are rounds of messages of several blocks, divided in stages so that no
// message exceeds a cell.
type grouped struct {
	each  int   // blocks that a message holds
	first []int // stage in which each round begins
	total int
}

// groupedBy takes for each round the largest number of blocks that any rank sends.
func groupedBy(s Shape, r recipe, most []int) grouped {
	longest := max(r.cut(s).part(0).len(), 1)
	g := grouped{each: max(s.message()/longest, 1)}
	for _, n := range most {
		g.first = append(g.first, g.total)
		g.total += ceil(n, g.each)
	}
	return g
}

// at is the round that a stage belongs to, and which of its messages it is.
func (g grouped) at(stage int) (round, sub int) {
	for round+1 < len(g.first) && g.first[round+1] <= stage {
		round++
	}
	return round, stage - g.first[round]
}

// group are the blocks of message sub, none if there are no more.
func (g grouped) group(blocks []Range, sub int) []Range {
	from := min(sub*g.each, len(blocks))
	return blocks[from:min(from+g.each, len(blocks))]
}

// message is group of blocks from … to−1, of which only those are made.
func (g grouped) message(from, to, sub int, block func(b int) Range) []Range {
	from = min(from+sub*g.each, to)
	to = min(from+g.each, to)
	list := make([]Range, 0, to-from)
	for b := from; b < to; b++ {
		list = append(list, block(b))
	}
	return list
}
