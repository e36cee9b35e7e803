package fabric

import (
	"fmt"
	"sync/atomic"

	"github.com/weft-go/weft/transport"
)

// Layout is the layout of a completion.
type Layout uint8

const (
	// LayoutReport ("v1") carries a report, and up to [transport.MaxArrivals] arrivals.
	LayoutReport Layout = iota
	// LayoutPlain ("v0") carries no report and can't track operations of a fabric;
	// it has up to 2²⁰−1 arrivals.
	LayoutPlain
)

const maxPlainArrivals = 1<<20 - 1

// CompletionConfig says what completion to make.
type CompletionConfig struct {
	Layout   Layout
	Arrivals int // that each phase expects
	// Expect: the transactions of a phase are those given to ArriveExpect, as on
	// the hardware, instead of those of the operations started on it.
	Expect bool
}

// A Completion tracks phases; see [transport.Completion]. What [Transport.NewCompletion]
// returns is one.
type Completion struct {
	t   *Transport
	cfg CompletionConfig

	// of the current phase, used by the goroutine that the completion belongs to
	arrived      int
	transactions int // of the operations, each in its own unit
	expected     int // as given to ArriveExpect
	started      int // operations
	waiting      int // of these, those that do not fetch and were not submitted
	unsubmitted  []*op
	submitted    []*op
	open         bool // operations were started since the last submit
	found        bool // Test found the phase done
	fabric       bool // operations of the fabric report here
	other        bool // another mechanism does
	decided      []decision
	freed        bool

	flying atomic.Int64  // operations submitted and not finished
	errors atomic.Uint32 // failures that the phase's report will tell
	idle   []*op         // to be used again
}

var _ transport.Completion = (*Completion)(nil)

// NewCompletion implements [transport.Transport].
func (t *Transport) NewCompletion(arrivals int) (transport.Completion, error) {
	c, err := t.MakeCompletion(CompletionConfig{Arrivals: arrivals})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// MakeCompletion returns a completion.
func (t *Transport) MakeCompletion(cfg CompletionConfig) (*Completion, error) {
	if t.isClosed() {
		return nil, fmt.Errorf("fabric: make a completion: %w", transport.ErrClosed)
	}
	if cfg.Layout > LayoutPlain {
		return nil, t.broken(RuleLayout, "make a completion", transport.ErrUnsupported).because(fmt.Sprintf("no layout %d", cfg.Layout))
	}
	most := transport.MaxArrivals
	if cfg.Layout == LayoutPlain {
		most = maxPlainArrivals
	}
	if cfg.Arrivals < 1 || cfg.Arrivals > most {
		return nil, t.broken(RuleArrivals, "make a completion", transport.ErrBounds).because(fmt.Sprintf("%d arrivals, the most is %d", cfg.Arrivals, most))
	}
	return &Completion{t: t, cfg: cfg}, nil
}

// Submit implements [transport.Completion].
func (c *Completion) Submit() error {
	if c.freed {
		return c.afterFree("submit")
	}
	c.submit(func(*op) bool { return true })
	c.open, c.waiting = false, 0
	return nil
}

// SubmitFetching submits only the operations that fetch: gets and pullreds.
func (c *Completion) SubmitFetching() error {
	if c.freed {
		return c.afterFree("submit")
	}
	c.submit((*op).fetches)
	c.open = c.waiting > 0
	return nil
}

// Arrive implements [transport.Completion].
func (c *Completion) Arrive() error { return c.ArriveExpect(0) }

// ArriveExpect makes one arrival that expects a number of transactions, each
// operation's in its own unit; it is for completions made with Expect. It must
// follow the Submit of the operations that it speaks of.
func (c *Completion) ArriveExpect(transactions int) error {
	const op = "arrive"
	switch {
	case c.freed:
		return c.afterFree(op)
	case c.arrived == c.cfg.Arrivals:
		return c.t.broken(RuleArriveBeforeWait, op, transport.ErrPhase).because("all arrivals of the phase are made")
	case c.open && c.t.strict() && c.arrived == c.cfg.Arrivals-1:
		return c.t.broken(RuleNotSubmitted, op, transport.ErrPhase).because(fmt.Sprintf("%d operations", len(c.unsubmitted)))
	case transactions < 0:
		return c.t.broken(RuleTransactions, op, transport.ErrBounds).because(fmt.Sprintf("%d transactions expected", transactions))
	case transactions != 0 && !c.cfg.Expect:
		return c.t.broken(RuleTransactions, op, transport.ErrUnsupported).because("the completion was not made with Expect")
	case transactions > transport.MaxTransactions-c.expected:
		return c.t.broken(RuleTransactions, op, transport.ErrTransactions).because(
			fmt.Sprintf("%d, with the %d that are expected; the most is %d", transactions, c.expected, transport.MaxTransactions))
	}
	c.arrived++
	c.expected += transactions
	return nil
}

// Test implements [transport.Completion]. A phase whose expected transactions
// are not those of its operations is never done.
func (c *Completion) Test() bool {
	if c.freed || c.arrived != c.cfg.Arrivals || c.open || c.flying.Load() != 0 {
		return false
	}
	if c.cfg.Expect && c.expected != c.transactions {
		c.unexpected()
		return false
	}
	c.found = true
	return true
}

// Report implements [transport.Completion]. Its code can be decoded with [Decode].
// Of the plain layout the report is always clean, and says nothing. After a report
// that is not clean, what was late of a get may still write to its destination, which
// is not to be used for anything else before [Transport.Drain] or Close.
func (c *Completion) Report() (transport.Report, error) {
	switch {
	case c.freed:
		return transport.Report{}, c.afterFree("report")
	case !c.found && (c.t.strict() || !c.Test()):
		return transport.Report{}, c.t.broken(RuleReportBeforeDone, "report", transport.ErrPhase)
	case c.t.strict():
		c.checkSources()
	}
	var r transport.Report
	if n := c.errors.Load(); n != 0 && c.cfg.Layout == LayoutReport {
		r = transport.Report{Status: transport.StatusFailed, Errors: int(n), Code: encode(int(n))}
	}
	c.reset()
	return r, nil
}

// reset begins the next phase.
func (c *Completion) reset() {
	c.arrived, c.transactions, c.expected, c.started, c.waiting = 0, 0, 0, 0, 0
	c.open, c.found, c.fabric, c.other = false, false, false, false
	if c.errors.Load() != 0 { // a store costs more
		c.errors.Store(0)
	}
	c.decided = c.decided[:0]
	c.closed(c.submitted)
	for _, o := range c.submitted {
		o.forget()
	}
	c.idle = append(c.idle, c.submitted...)
	c.submitted = c.submitted[:0]
}

// WaitReads returns when the sources of all submitted operations of the phase
// have been read, so that they may change.
func (c *Completion) WaitReads() { c.t.engine.readSources(c.submitted) }

// Raise reports a failure by another mechanism than the fabric, such as a bulk
// copy whose bytes are part of the phase. The two must not be mixed in one phase.
func (c *Completion) Raise() error {
	if c.freed {
		return c.afterFree("raise")
	}
	if c.fabric {
		return c.t.broken(RuleMixedReporters, "raise", transport.ErrPhase)
	}
	c.other = true
	c.errors.Add(1)
	return nil
}

// Free gives the completion up. Its phase must have been waited for: in every mode,
// a phase with operations that was not is an error, and given up all the same.
// A completion that was freed refuses everything but another Free.
func (c *Completion) Free() error {
	if c.freed {
		return nil
	}
	err := c.abandoned("free")
	c.t.engine.abandon(c)
	c.closed(c.unsubmitted)
	c.unsubmitted = c.unsubmitted[:0]
	c.reset()
	c.freed = true
	if err != nil {
		return err
	}
	return nil
}

func (c *Completion) afterFree(op string) error {
	return c.t.broken(RuleUsedAfterFree, op, transport.ErrPhase).because("a completion that was freed")
}

// start books an operation of the given number of transactions.
func (c *Completion) start(o *op, transactions int) error {
	t := c.t
	switch {
	case c.freed:
		return c.afterFree(o.kind.String())
	case c.arrived == c.cfg.Arrivals:
		return t.broken(RuleArriveBeforeWait, o.kind.String(), transport.ErrPhase).because("all arrivals of the phase are made")
	case transactions > transport.MaxTransactions-c.transactions: // the sum may not fit an int
		return t.broken(RuleTransactions, o.kind.String(), transport.ErrTransactions).because(
			fmt.Sprintf("%d, with the %d that the phase has; the most is %d", transactions, c.transactions, transport.MaxTransactions))
	case c.cfg.Layout == LayoutPlain:
		return t.broken(RuleLayout, o.kind.String(), transport.ErrUnsupported)
	case c.other:
		return t.broken(RuleMixedReporters, o.kind.String(), transport.ErrPhase)
	}
	c.transactions += transactions
	c.open, c.fabric = true, true
	c.started++
	if !o.fetches() {
		c.waiting++
	}
	if t.strict() && c.started == 1 {
		t.openMu.Lock()
		t.open[c] = struct{}{}
		t.openMu.Unlock()
	}
	return nil
}
