//go:build rules

package lane

// Built with the tag rules, machines can go without one of the rules that make a retry
// safe, by its name: the soak of the engine shows what becomes of its messages then.

// Without takes a rule away.
func (s *Sender) Without(rule string) { s.without |= switchboard(named(rule)) }

// Without takes a rule away.
func (r *Receiver) Without(rule string) { r.without |= switchboard(named(rule)) }

// Without takes a rule away.
func (p *Places) Without(rule string) { p.without |= switchboard(named(rule)) }

// Without takes a rule away.
func (w *Word) Without(rule string) { w.without |= switchboard(named(rule)) }

// Without takes a rule away.
func (z *Zones) Without(rule string) { z.without |= switchboard(named(rule)) }

func named(name string) rule {
	for r, n := range ruleNames {
		if n == name {
			return r
		}
	}
	panic("no rule " + name)
}
