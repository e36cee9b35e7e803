package plan

import (
	"fmt"
	"strings"
)

// An order is how the contributions to one element are reduced: a leaf is what a
// rank contributes, any other one the reduction of several, from left to right.
// The verifier compares what schedules do with it.
type order struct {
	rank int
	of   []*order
}

func leaf(rank int) *order { return &order{rank: rank} }

func both(a, b *order) *order { return &order{of: []*order{a, b}} }

// mod takes all ranks modulo n.
func (o *order) mod(n int) *order {
	if o.of == nil {
		return leaf(o.rank % n)
	}
	list := make([]*order, len(o.of))
	for i, x := range o.of {
		list[i] = x.mod(n)
	}
	return &order{of: list}
}

// leaves are the ranks in the order in which they come.
func (o *order) leaves() []int {
	if o.of == nil {
		return []int{o.rank}
	}
	var list []int
	for _, x := range o.of {
		list = append(list, x.leaves()...)
	}
	return list
}

// String is like "((0 1) 2)".
func (o *order) String() string {
	if o.of == nil {
		return fmt.Sprint(o.rank)
	}
	list := make([]string, len(o.of))
	for i, x := range o.of {
		list[i] = x.String()
	}
	return "(" + strings.Join(list, " ") + ")"
}

// fill makes o the order of the elements of p.
func fill(orders []*order, p part, o *order) {
	for i := p.from; i < p.to; i++ {
		orders[i] = o
	}
}

// same is one order for all elements.
func same(s Shape, o *order) []*order {
	orders := make([]*order, s.results())
	fill(orders, part{to: len(orders)}, o)
	return orders
}

// perRank is an order for each rank's result; nil if it has none.
func perRank(s Shape, of func(rank int) *order) []*order {
	orders := make([]*order, s.results())
	for r := range s.Ranks {
		fill(orders, part{from: s.result(r, 0), to: s.result(r, s.Count)}, of(r))
	}
	return orders
}

// flatOrder is all ranks at once.
func flatOrder(s Shape) []*order { return same(s, ranksAtOnce(s.Ranks)) }

// ranksAtOnce is ranks 0 … n−1 at once.
func ranksAtOnce(n int) *order {
	all := &order{}
	for r := range n {
		all.of = append(all.of, leaf(r))
	}
	return all
}
