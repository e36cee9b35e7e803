package faults

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxBurst is the longest burst of a plan, in phases. An outage that is longer is
// a plan with rate=1 and bounds.
const MaxBurst = 4096

// A Plan says which phases are hit by faults. The package's page says how. The
// zero plan injects nothing; in every field, zero stands for the default.
type Plan struct {
	Seed     uint64
	Rate     float64    // probability that a fault begins at a phase, 0…1
	Kinds    KindSet    // 0: all
	Ops      OpSet      // phases with at least one of these; 0: all
	Links    []Link     // patterns; none: all links
	From, To uint64     // phase numbers From…To−1; To 0: no bound
	Burst    int        // phases in a row, 1…MaxBurst; 0: 1
	Dead     []DeadLink // links that die
}

// A DeadLink says that nothing passes on the matching links from a phase on.
type DeadLink struct {
	Link  Link   // a pattern
	Alias int    // 0: by any id of the target; n+1: by alias n of it only, see [Decider]
	From  uint64 // the first dead phase
}

// A PlanError says which field of a plan is wrong and why.
type PlanError struct {
	Field string // as the grammar names it
	Value string
	Why   string
}

func (e *PlanError) Error() string {
	if e.Field == "" && e.Value == "" {
		return "fault plan: " + e.Why
	}
	return fmt.Sprintf("fault plan: %s=%s: %s", e.Field, e.Value, e.Why)
}

// Validate says what is wrong with the plan; the error is a [*PlanError].
func (p Plan) Validate() error {
	if !(p.Rate >= 0 && p.Rate <= 1) {
		return &PlanError{"rate", formatRate(p.Rate), "not between 0 and 1"}
	}
	if p.Kinds&^AllKinds != 0 {
		return &PlanError{"kinds", fmt.Sprintf("%#x", uint8(p.Kinds)), "only drop, ack, part and late are drawn"}
	}
	if _, ok := p.Ops.groups(); !ok {
		return &PlanError{"ops", fmt.Sprintf("%#x", uint32(p.Ops)), "not a union of the grammar's groups of operations"}
	}
	for _, l := range p.Links {
		if !l.valid() {
			return &PlanError{"links", l.String(), "not a link"}
		}
	}
	if p.To != 0 && p.To <= p.From {
		return &PlanError{"to", strconv.FormatUint(p.To, 10), fmt.Sprintf("not above from=%d", p.From)}
	}
	if p.Burst < 0 || p.Burst > MaxBurst {
		return &PlanError{"burst", strconv.Itoa(p.Burst), fmt.Sprintf("not between 1 and %d", MaxBurst)}
	}
	for _, d := range p.Dead {
		if !d.Link.valid() || d.Alias < 0 || d.Alias > math.MaxInt32 {
			return &PlanError{"dead", d.String(), "not a link"}
		}
	}
	return nil
}

// Fits says whether the plan names only links that a job of so many ranks has; the
// error is a [*PlanError]. A link of a rank that is not there, or of one to itself,
// would never fail.
func (p Plan) Fits(ranks int) error {
	fits := func(field string, l Link, text string) error {
		if rank := max(l.From, l.To); rank >= ranks {
			return &PlanError{field, text, fmt.Sprintf("there is no rank %d, ranks are 0 to %d", rank, ranks-1)}
		}
		if l.From == l.To && l.From >= 0 {
			return &PlanError{field, text, "a rank has no link to itself"}
		}
		return nil
	}
	for _, l := range p.Links {
		if err := fits("links", l, l.String()); err != nil {
			return err
		}
	}
	for _, d := range p.Dead {
		if err := fits("dead", d.Link, d.String()); err != nil {
			return err
		}
	}
	return nil
}

// normal returns the one plan among those that differ only in how they say the
// same: defaults are zero, lists are sorted and without repetitions.
func (p Plan) normal() Plan {
	if p.Rate == 0 {
		p.Rate = 0 // of the two zeros the positive one
	}
	if p.Kinds == AllKinds {
		p.Kinds = 0
	}
	if p.Ops == AllOps {
		p.Ops = 0
	}
	if p.Burst == 1 {
		p.Burst = 0
	}
	p.Links = slices.Clone(p.Links)
	slices.SortFunc(p.Links, Link.compare)
	p.Links = slices.Compact(p.Links)
	if len(p.Links) == 0 || slices.Contains(p.Links, Link{Any, Any}) {
		p.Links = nil
	}
	p.Dead = slices.Clone(p.Dead)
	slices.SortFunc(p.Dead, func(a, b DeadLink) int {
		return cmp.Or(a.Link.compare(b.Link), cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.From, b.From))
	})
	p.Dead = slices.Compact(p.Dead)
	if len(p.Dead) == 0 {
		p.Dead = nil
	}
	return p
}

// String returns the plan in the grammar, with the fields in the grammar's order
// and without those that have their default. [Parse] of it returns an equal plan
// if the plan is valid.
func (p Plan) String() string {
	p = p.normal()
	var fields []string
	field := func(name, value string) { fields = append(fields, name+"="+value) }
	number := func(name string, n uint64) {
		if n != 0 {
			field(name, strconv.FormatUint(n, 10))
		}
	}
	number("seed", p.Seed)
	if p.Rate != 0 {
		field("rate", formatRate(p.Rate))
	}
	if p.Kinds != 0 {
		var names []string
		for k := Drop; k <= Late; k++ {
			if p.Kinds.Has(k) {
				names = append(names, k.String())
			}
		}
		field("kinds", strings.Join(names, "+"))
	}
	if p.Ops != 0 {
		names, _ := p.Ops.groups()
		field("ops", strings.Join(names, "+"))
	}
	if p.Links != nil {
		field("links", joined(p.Links))
	}
	number("from", p.From)
	number("to", p.To)
	if p.Burst != 0 {
		field("burst", strconv.Itoa(p.Burst))
	}
	if p.Dead != nil {
		field("dead", joined(p.Dead))
	}
	return strings.Join(fields, ",")
}

// String returns the dead link as the grammar has it, such as 0>1@500 or 0>1/0@500.
func (d DeadLink) String() string {
	alias := ""
	if d.Alias != 0 {
		alias = "/" + strconv.Itoa(d.Alias-1)
	}
	return d.Link.String() + alias + "@" + strconv.FormatUint(d.From, 10)
}

// matches says whether the link is dead for a phase by an alias.
func (d DeadLink) matches(link Link, alias int, phase uint64) bool {
	return phase >= d.From && d.Link.matches(link) && (d.Alias == 0 || d.Alias == alias+1)
}

func formatRate(rate float64) string {
	return strconv.FormatFloat(rate, 'g', -1, 64)
}

func joined[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return strings.Join(texts, ";")
}
