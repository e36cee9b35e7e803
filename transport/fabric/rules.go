package fabric

import (
	"errors"
	"fmt"

	"github.com/weft-go/weft/transport"
)

// A Rule is a use of the fabric that the guide calls undefined or forbids. Rules
// are checked in every mode where the call that breaks one can tell; those that
// are marked "strict" in the table below only in [ModeStrict].
type Rule uint8

const (
	// RuleNone is the zero Rule.
	RuleNone Rule = iota

	// Ids and life cycle.

	// RuleIDState: an id that is not reserved, is associated already, or is
	// released while it is associated.
	RuleIDState
	// RuleClique: the peer is not in this device's clique of the type needed.
	RuleClique
	// RuleBeforeReady: bound or used before a query found it ready.
	RuleBeforeReady
	// RuleBindAlign: an endpoint's size, a binding's offset or size is misaligned.
	RuleBindAlign
	// RuleBindRange: a binding outside the endpoint or its memory, or over another,
	// or an unbind of what no bind put there.
	RuleBindRange
	// RuleBindImported: memory bound to an imported unicast endpoint.
	RuleBindImported
	// RuleFreedWhileBound: memory was freed while it was bound.
	RuleFreedWhileBound
	// RuleUsedAfterFree: a view or binding of freed memory, or a completion that
	// was given up by Free.
	RuleUsedAfterFree
	// RuleUnboundInUse (strict): unbound or destroyed while operations of others
	// were under way.
	RuleUnboundInUse
	// RuleDestroyedInUse (strict): an id was destroyed while this rank's own
	// operations on it were under way.
	RuleDestroyedInUse

	// Operations.

	// RuleUnknown: the id names no endpoint, or nothing is bound to it.
	RuleUnknown
	// RuleBounds: the range is outside the endpoint or what is bound to it.
	RuleBounds
	// RuleAlign: an offset or length is not a multiple of 16 bytes.
	RuleAlign
	// RuleEndpointType: a unicast operation on a multicast endpoint, or the reverse.
	RuleEndpointType
	// RuleNotMember: a multicast operation from a device that was not added.
	RuleNotMember
	// RuleOwnerAccess: the owner used its own unicast endpoint, and can't.
	RuleOwnerAccess
	// RuleOperator: the instruction does not have the operator for the type.
	RuleOperator
	// RuleCountedFlag: a counted operation on an endpoint without the flag.
	RuleCountedFlag
	// RuleCounterAlign: the counter is not aligned to 256 bytes.
	RuleCounterAlign
	// RuleCounterShared: the counter's place is also that of data of its own
	// operation; or (strict) the counter's line, of [transport.CounterAlign] bytes, has
	// data of its own operation, or of another one of this rank whose phase was not
	// reported, of whichever completion.
	RuleCounterShared
	// RuleCounterTarget (strict): a counter went above what its owner awaits.
	RuleCounterTarget
	// RuleSourceChanged (strict): a source changed before its phase ended.
	RuleSourceChanged
	// RuleUnboundTarget: what an operation names was taken away before it was
	// executed. Its report says failed; (strict) an error says why.
	RuleUnboundTarget

	// Completions.

	// RuleArrivals: more arrivals than the layout holds.
	RuleArrivals
	// RuleTransactions: more transactions than a phase holds.
	RuleTransactions
	// RuleExpected (strict): the expected transactions are not those of the phase.
	RuleExpected
	// RuleLayout: the completion's layout can't carry a report, or is none that there is.
	RuleLayout
	// RuleMixedReporters: two mechanisms report on one completion.
	RuleMixedReporters
	// RuleNotSubmitted: a completion was given up by Free before all operations were
	// submitted; or (strict) by Close, or the last arrival was made before.
	RuleNotSubmitted
	// RuleArriveBeforeWait: an arrival on the next phase before a successful wait.
	RuleArriveBeforeWait
	// RuleReportBeforeDone: a report read before the phase was found done.
	RuleReportBeforeDone
	// RuleDropped: a completion was given up by Free with a phase not waited for; or
	// (strict) by Close.
	RuleDropped

	// Ordering.

	// RuleMissingAcquire (strict): read by pointer what the fabric wrote, without
	// an acquire fence in between.
	RuleMissingAcquire
	// RuleMissingRelease (strict): read by the fabric what was written by pointer,
	// without a release fence in between; or a rank's operation on what it stored itself
	// by pointer at a peer.
	RuleMissingRelease

	numRules
)

// ruleTable has each rule's name, where the guide or the instruction set has it,
// and whether only the strict mode checks it.
var ruleTable = [numRules]struct {
	name, section string
	strict        bool
}{
	RuleNone:             {name: "none"},
	RuleIDState:          {name: "id-state", section: "4.18.6"},
	RuleClique:           {name: "clique", section: "4.18.4"},
	RuleBeforeReady:      {name: "before-ready", section: "4.18.7.1"},
	RuleBindAlign:        {name: "bind-align", section: "4.18.6.1"},
	RuleBindRange:        {name: "bind-range", section: "4.18.8"},
	RuleBindImported:     {name: "bind-imported", section: "4.18.3"},
	RuleFreedWhileBound:  {name: "freed-while-bound", section: "4.18.11"},
	RuleUsedAfterFree:    {name: "used-after-free", section: "4.18.11"},
	RuleUnboundInUse:     {name: "unbound-in-use", section: "4.18.11", strict: true},
	RuleDestroyedInUse:   {name: "destroyed-in-use", section: "4.18.11", strict: true},
	RuleUnknown:          {name: "unknown-endpoint", section: "4.18.6"},
	RuleBounds:           {name: "bounds", section: "4.18.8"},
	RuleAlign:            {name: "align", section: "4.18.9"},
	RuleEndpointType:     {name: "endpoint-type", section: "4.18.2.1"},
	RuleNotMember:        {name: "not-a-member", section: "4.18.5"},
	RuleOwnerAccess:      {name: "owner-access", section: "4.18.2.2"},
	RuleOperator:         {name: "operator", section: "PTX fabric.try_red, try_pullred, try_atom"},
	RuleCountedFlag:      {name: "counted-flag", section: "4.18.2.1"},
	RuleCounterAlign:     {name: "counter-align", section: "4.18.9"},
	RuleCounterShared:    {name: "counter-shared", section: "PTX counted completion"},
	RuleCounterTarget:    {name: "counter-target", section: "4.18.2.1", strict: true},
	RuleSourceChanged:    {name: "source-changed", section: "4.18.9", strict: true},
	RuleUnboundTarget:    {name: "unbound-target", section: "4.18.8"},
	RuleArrivals:         {name: "arrivals", section: "4.18.10.1"},
	RuleTransactions:     {name: "transactions", section: "4.18.10.1"},
	RuleExpected:         {name: "expected-transactions", section: "4.18.10.1", strict: true},
	RuleLayout:           {name: "layout", section: "4.18.10"},
	RuleMixedReporters:   {name: "mixed-reporters", section: "PTX report::fabric"},
	RuleNotSubmitted:     {name: "not-submitted", section: "4.18.10"},
	RuleArriveBeforeWait: {name: "arrive-before-wait", section: "PTX mbarrier.arrive"},
	RuleReportBeforeDone: {name: "report-before-done", section: "4.18.10"},
	RuleDropped:          {name: "dropped", section: "4.18.11"},
	RuleMissingAcquire:   {name: "missing-acquire", section: "4.18.9", strict: true},
	RuleMissingRelease:   {name: "missing-release", section: "4.18.9", strict: true},
}

// String returns the rule's name.
func (r Rule) String() string {
	if r < numRules {
		return ruleTable[r].name
	}
	return "unknown rule"
}

// Section says where the CUDA programming guide, or the PTX manual, has the rule.
func (r Rule) Section() string {
	if r < numRules {
		return ruleTable[r].section
	}
	return ""
}

// Strict says that nothing of the rule is checked but in [ModeStrict]. Of some of
// the others a part is: the comment of each rule has it marked.
func (r Rule) Strict() bool { return r < numRules && ruleTable[r].strict }

// Rules returns all rules.
func Rules() []Rule {
	var all []Rule
	for r := RuleNone + 1; r < numRules; r++ {
		all = append(all, r)
	}
	return all
}

// ErrUndefined is behind a [RuleError] whose rule the contract has no error for: what
// a real fabric does then is anybody's guess.
var ErrUndefined = errors.New("what happens is undefined")

// A RuleError says which rule was broken, by what, and between whom. The contract's
// error that belongs to it, such as [transport.ErrBounds], or [ErrUndefined], is
// found by errors.Is.
type RuleError struct {
	Rule     Rule
	Op       string               // the operation or call
	Rank     int                  // who broke the rule, −1 if its rank is not known
	Peer     int                  // the other side, −1 if there is none or its rank is not known
	Endpoint transport.EndpointID // 0 if it is about none
	Offset   uint64
	Bytes    uint64
	Detail   string
	Err      error
}

func (e *RuleError) Error() string {
	text := fmt.Sprintf("fabric: %s: rule %v (%s): rank %d", e.Op, e.Rule, e.Rule.Section(), e.Rank)
	if e.Peer >= 0 {
		text += fmt.Sprintf(", peer %d", e.Peer)
	}
	if e.Endpoint != 0 {
		text += fmt.Sprintf(", endpoint %d", e.Endpoint)
	}
	if e.Bytes != 0 {
		text += fmt.Sprintf(", %d bytes at %d", e.Bytes, e.Offset)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *RuleError) Unwrap() error { return e.Err }
