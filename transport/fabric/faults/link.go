package faults

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

const (
	// Any matches every rank, and as a target also [Multicast].
	Any = -1
	// Multicast is the target of phases to multicast endpoints.
	Multicast = -2
)

// A Link is the pair of the rank that starts phases and their target: a rank or
// [Multicast]. In a plan both may be [Any].
type Link struct {
	From, To int
}

// String returns the link as the grammar has it, such as 0>1, 0>m, *>1.
func (l Link) String() string { return end(l.From) + ">" + end(l.To) }

func end(rank int) string {
	switch rank {
	case Any:
		return "*"
	case Multicast:
		return "m"
	}
	return strconv.Itoa(rank)
}

// matches says whether pattern l covers link x.
func (l Link) matches(x Link) bool {
	return (l.From == Any || l.From == x.From) && (l.To == Any || l.To == x.To)
}

func (l Link) valid() bool {
	return l.From >= Any && l.From <= math.MaxInt32 && l.To >= Multicast && l.To <= math.MaxInt32
}

// concrete says that phases can have the link: it is valid without wildcards.
func (l Link) concrete() bool { return l.valid() && l.From != Any && l.To != Any }

func (l Link) compare(x Link) int {
	return cmp.Or(cmp.Compare(l.From, x.From), cmp.Compare(l.To, x.To))
}

// parseLink is the reverse of String.
func parseLink(s string) (Link, bool) {
	from, to, found := strings.Cut(s, ">")
	if !found || from == "m" {
		return Link{}, false
	}
	a, okA := parseEnd(from)
	b, okB := parseEnd(to)
	return Link{a, b}, okA && okB
}

func parseEnd(s string) (int, bool) {
	switch s {
	case "*":
		return Any, true
	case "m":
		return Multicast, true
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}
