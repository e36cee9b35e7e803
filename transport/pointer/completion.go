package pointer

import (
	"fmt"

	"github.com/weft-go/weft/transport"
)

// completion counts what a phase holds, to keep the contract's limits: the
// operations themselves have ended when they return.
type completion struct {
	expected, arrived int
	transactions      int  // in the operations' own units
	open              bool // operations were started since the last Submit
}

// NewCompletion implements [transport.Transport].
func (t *Transport) NewCompletion(arrivals int) (transport.Completion, error) {
	if arrivals < 1 || arrivals > transport.MaxArrivals {
		return nil, fmt.Errorf("pointer: a completion of %d arrivals: %w", arrivals, transport.ErrBounds)
	}
	return &completion{expected: arrivals}, nil
}

func (c *completion) Submit() error {
	c.open = false
	return nil
}

func (c *completion) Arrive() error {
	if c.arrived == c.expected {
		return fmt.Errorf("pointer: arrive: %w: all arrivals of the phase are made", transport.ErrPhase)
	}
	c.arrived++
	return nil
}

func (c *completion) Test() bool { return c.arrived == c.expected && !c.open }

func (c *completion) Report() (transport.Report, error) {
	if !c.Test() {
		return transport.Report{}, fmt.Errorf("pointer: report: %w: the phase is not done", transport.ErrPhase)
	}
	c.arrived, c.transactions = 0, 0
	return transport.Report{}, nil
}

// start books an operation of the given number of transactions.
func (c *completion) start(transactions int) error {
	if c.arrived == c.expected {
		return fmt.Errorf("pointer: start an operation: %w: all arrivals of the phase are made", transport.ErrPhase)
	}
	if transactions > transport.MaxTransactions-c.transactions { // the sum may not fit an int
		return fmt.Errorf("pointer: %w", transport.ErrTransactions)
	}
	c.transactions += transactions
	c.open = true
	return nil
}
