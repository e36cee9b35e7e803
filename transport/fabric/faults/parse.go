package faults

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a plan. The error, a [*PlanError], says which field is wrong and
// why. Of plans that differ only in how they say the same, Parse returns the same:
// what is the default is zero, lists are sorted.
func Parse(s string) (Plan, error) {
	var p Plan
	if s == "" {
		return p, nil
	}
	seen := make(map[string]bool)
	for text := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(fields[:], func(f field) bool { return f.name == name })
		var why string
		switch {
		case text == "":
			why = "nothing before or after a comma"
		case i < 0:
			why = "no such field; there are seed, rate, kinds, ops, links, from, to, burst, dead"
		case seen[name]:
			why = "stands twice"
		case value == "":
			why = "has no value"
		default:
			why = fields[i].set(&p, value)
		}
		if why != "" {
			return Plan{}, &PlanError{name, value, why}
		}
		seen[name] = true
	}
	if err := p.Validate(); err != nil {
		return Plan{}, err
	}
	return p.normal(), nil
}

// A field is a field of the grammar; set reads its value, or says why not.
type field struct {
	name string
	set  func(p *Plan, value string) (why string)
}

var fields = [...]field{
	{"seed", func(p *Plan, value string) string { return number(&p.Seed, value, 0) }},
	{"rate", func(p *Plan, value string) (why string) {
		var err error
		p.Rate, err = strconv.ParseFloat(value, 64)
		if err != nil || strings.Trim(value, "0123456789.eE+-") != "" {
			return "not a decimal between 0 and 1"
		}
		return ""
	}},
	{"kinds", func(p *Plan, value string) string {
		for name := range strings.SplitSeq(value, "+") {
			k := Drop
			for k <= Late && k.String() != name {
				k++
			}
			if k > Late {
				return fmt.Sprintf("%q is none of drop, ack, part, late", name)
			}
			p.Kinds |= Kinds(k)
		}
		return ""
	}},
	{"ops", func(p *Plan, value string) string {
	names:
		for name := range strings.SplitSeq(value, "+") {
			for _, g := range opGroups {
				if g.name == name {
					p.Ops |= g.set
					continue names
				}
			}
			return fmt.Sprintf("%q is none of put, counted, get, pullred, red, atom", name)
		}
		return ""
	}},
	{"links", func(p *Plan, value string) string {
		for text := range strings.SplitSeq(value, ";") {
			l, ok := parseLink(text)
			if !ok {
				return fmt.Sprintf("%q is not a link such as 0>1, 2>*, 0>m", text)
			}
			p.Links = append(p.Links, l)
		}
		return ""
	}},
	{"from", func(p *Plan, value string) string { return number(&p.From, value, 0) }},
	{"to", func(p *Plan, value string) string { return number(&p.To, value, 1) }},
	{"burst", func(p *Plan, value string) string {
		var n uint64
		if why := number(&n, value, 1); why != "" {
			return why
		}
		if n > MaxBurst {
			return fmt.Sprintf("not between 1 and %d", MaxBurst)
		}
		p.Burst = int(n)
		return ""
	}},
	{"dead", func(p *Plan, value string) string {
		for text := range strings.SplitSeq(value, ";") {
			link, phase, _ := strings.Cut(text, "@")
			link, alias, one := strings.Cut(link, "/")
			l, ok := parseLink(link)
			d := DeadLink{Link: l}
			if one {
				n, err := strconv.ParseUint(alias, 10, 31)
				d.Alias = int(n) + 1
				ok = ok && err == nil && n < math.MaxInt32
			}
			var err error
			d.From, err = strconv.ParseUint(phase, 10, 64)
			if !ok || err != nil {
				return fmt.Sprintf("%q is not a link and a phase such as 0>1@500 or 0>1/0@500", text)
			}
			p.Dead = append(p.Dead, d)
		}
		return ""
	}},
}

func number(n *uint64, value string, least uint64) (why string) {
	x, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return "not a number below 2⁶⁴ in decimal digits"
	}
	if x < least {
		return fmt.Sprintf("less than %d", least)
	}
	*n = x
	return ""
}
