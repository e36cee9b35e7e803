package plan

import (
	"fmt"
	"slices"
	"strings"
)

// A Spec says which algorithms may be chosen. The zero Spec allows all.
type Spec struct {
	lists map[Collective]specList // 0: for all collectives without a list
}

// A specList is the names that are allowed, or those that aren't.
type specList struct {
	except bool
	names  []string
}

// ParseSpec reads what the user allows, in this form:
//
//	ring,tree;allreduce:ring;broadcast:^tree
//
// Lists of algorithms with semicolons between them. The first may stand for all
// collectives; the others say which one they are for, and count there instead.
// The cheapest algorithm of a list is taken. A list that begins with ^ allows
// all but its names. Where the list for all collectives has nothing that a
// collective can do, it leaves that collective alone. Spaces and case don't
// matter, and an empty text allows everything.
func ParseSpec(text string) (Spec, error) {
	var s Spec
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	s.lists = make(map[Collective]specList)
	for i, part := range strings.Split(text, ";") {
		name, list, prefixed := strings.Cut(part, ":")
		var c Collective
		if !prefixed {
			if list = part; i > 0 {
				return Spec{}, fmt.Errorf("plan: %q names no collective, as %s:%s would; only the first list may stand for all",
					strings.TrimSpace(part), AllReduce, strings.TrimSpace(part))
			}
		} else {
			var err error
			if c, err = ParseCollective(name); err != nil {
				return Spec{}, err
			}
		}
		if _, twice := s.lists[c]; twice {
			return Spec{}, fmt.Errorf("plan: two lists for %s", c)
		}
		l, err := parseSpecList(list, c)
		if err != nil {
			return Spec{}, err
		}
		s.lists[c] = l
	}
	return s, nil
}

// ParseCollective returns the collective of a name.
func ParseCollective(name string) (Collective, error) {
	name = normalName(name)
	var known []string
	for _, c := range Collectives() {
		if c.String() == name {
			return c, nil
		}
		known = append(known, c.String())
	}
	return 0, fmt.Errorf("plan: unknown collective %q, known are %s", name, strings.Join(known, ", "))
}

func normalName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// parseSpecList reads the list of a collective, or of all.
func parseSpecList(text string, c Collective) (specList, error) {
	known, of := algorithmsOf(c)
	var l specList
	text = strings.TrimSpace(text)
	if l.except = strings.HasPrefix(text, "^"); l.except {
		text = text[1:]
	}
	for _, name := range strings.Split(text, ",") {
		name = normalName(name)
		switch {
		case name == "":
			return l, fmt.Errorf("plan: an empty name in a list of algorithms%s", of)
		case name[0] == '^':
			return l, fmt.Errorf("plan: %q: only a whole list can be inverted, by a ^ at its beginning", name)
		case !slices.Contains(known, name):
			return l, fmt.Errorf("plan: unknown algorithm %q%s, known are %s", name, of, strings.Join(known, ", "))
		case !slices.Contains(l.names, name):
			l.names = append(l.names, name)
		}
	}
	if c != 0 && len(l.filter(known)) == 0 {
		return l, fmt.Errorf("plan: ^%s leaves no algorithm%s", strings.Join(l.names, ","), of)
	}
	return l, nil
}

// algorithmsOf lists the algorithms of a collective, or of all, and says so.
func algorithmsOf(c Collective) (names []string, of string) {
	if c != 0 {
		return Algorithms(c), " for " + c.String()
	}
	for _, c := range Collectives() {
		for _, name := range Algorithms(c) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, ""
}

// filter returns those of names that the list allows.
func (l specList) filter(names []string) []string {
	var allowed []string
	for _, name := range names {
		if slices.Contains(l.names, name) != l.except {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// choose returns those of the usable algorithms that the spec allows. Only a
// list for this very collective may fail to leave one.
func (s Spec) choose(c Collective, usable []string) ([]string, error) {
	if l, ok := s.lists[c]; ok {
		allowed := l.filter(usable)
		if len(allowed) == 0 {
			return nil, fmt.Errorf("plan: %s:%s allows nothing that can be used here, which would be %s", c, l, strings.Join(usable, ", "))
		}
		return allowed, nil
	}
	if l, ok := s.lists[0]; ok {
		if allowed := l.filter(usable); len(allowed) > 0 {
			return allowed, nil
		}
	}
	return usable, nil
}

func (l specList) String() string {
	text := strings.Join(l.names, ",")
	if l.except {
		text = "^" + text
	}
	return text
}

// String writes a spec so that ParseSpec reads the same again.
func (s Spec) String() string {
	var parts []string
	if l, ok := s.lists[0]; ok {
		parts = append(parts, l.String())
	}
	for _, c := range Collectives() {
		if l, ok := s.lists[c]; ok {
			parts = append(parts, c.String()+":"+l.String())
		}
	}
	return strings.Join(parts, ";")
}
