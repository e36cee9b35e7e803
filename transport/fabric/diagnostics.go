package fabric

import (
	"errors"
	"slices"
	"sync"
)

// maxDiagnostics bounds the errors that are kept: the first ones tell most.
const maxDiagnostics = 1000

// diagnostics are errors that no call could return.
type diagnostics struct {
	mu    sync.Mutex
	errs  []error
	taken int // of errs, those that Close has returned
	each  func(error)
}

func (d *diagnostics) add(err error) {
	d.mu.Lock()
	if len(d.errs) < maxDiagnostics {
		d.errs = append(d.errs, err)
	}
	d.mu.Unlock()
	if d.each != nil {
		d.each(err)
	}
}

func (d *diagnostics) all() []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.errs)
}

// take returns what was not returned by an earlier take, as one error.
func (d *diagnostics) take() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := d.errs[d.taken:]
	d.taken = len(d.errs)
	return errors.Join(fresh...)
}

// Diagnostics returns the errors found after the call that was to blame had
// returned, the first 1000 of them. Close returns them too.
func (t *Transport) Diagnostics() []error { return t.diag.all() }

// broken makes a rule's error of this rank.
func (t *Transport) broken(r Rule, op string, err error) *RuleError {
	return &RuleError{Rule: r, Op: op, Rank: t.cfg.rank, Peer: -1, Err: err}
}

func (e *RuleError) at(ep *endpoint, offset, n uint64) *RuleError {
	e.Endpoint, e.Offset, e.Bytes, e.Peer = ep.id, offset, n, ep.dev.rank
	return e
}

func (e *RuleError) because(detail string) *RuleError {
	e.Detail = detail
	return e
}
