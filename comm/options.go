package comm

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// DefaultTimeout is the deadline of calls whose context has none.
const DefaultTimeout = 10 * time.Minute

// settings are what options and the environment decide.
type settings struct {
	timeout   time.Duration
	transport string
	faults    string
	faultLog  string
	reroute   waySet
	algorithm string
	commit    bool
	device    int // ordinal, or negative: by the rank
	logger    *slog.Logger

	given map[string]bool // variables for which there was an option
}

// An Option configures Init or Local. Options win over WEFT_* variables: one for which
// there is an option isn't looked at, and may be wrong.
type Option func(*settings) error

// WithTimeout sets the deadline of calls whose context has none (WEFT_TIMEOUT,
// default [DefaultTimeout]). It counts from the moment at which a call begins to
// wait, and all waits of the call have it together; the ranks should agree on it. It
// bounds what Init does once the ranks have met as well. Zero or less is an error.
func WithTimeout(d time.Duration) Option {
	return func(s *settings) error {
		s.given["WEFT_TIMEOUT"] = true
		if d <= 0 {
			return fmt.Errorf("%w: timeout %v", ErrArgument, d)
		}
		s.timeout = d
		return nil
	}
}

// WithLogger sets where the library logs (WEFT_LOG: debug, info, warn or error,
// for a text log on standard error). The default is nowhere.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) error {
		s.given["WEFT_LOG"] = true
		if l == nil {
			return fmt.Errorf("%w: nil logger", ErrArgument)
		}
		s.logger = l
		return nil
	}
}

// WithTransport chooses the transport (WEFT_TRANSPORT, in any case), one of [Transports]:
//
//   - "auto", the default, is pointer, or fabric if there is a plan of faults.
//   - "pointer" is mapped memory.
//   - "fabric" is the software fabric, for developing and testing: its operations
//     are asynchronous, as those of real hardware. "fabric:strict" adds the sanitizer,
//     "fabric:fast" moves bytes at once. See package fabric.
//
// All ranks must give the same.
func WithTransport(name string) Option {
	return func(s *settings) error {
		s.given["WEFT_TRANSPORT"] = true
		if !slices.Contains(Transports(), name) {
			return fmt.Errorf("%w: transport %q; known are %s", ErrArgument, name, strings.Join(Transports(), ", "))
		}
		s.transport = name
		return nil
	}
}

// Transports returns the names that [WithTransport] takes.
func Transports() []string {
	return []string{"auto", "pointer", "fabric", "fabric:strict", "fabric:fast"}
}

// WithFaults has the software fabric fail as a plan says (WEFT_FAULTS), which is
// written as package faults documents it, or, with "@PATH", as it did in the run that
// [WithFaultLog] logged to PATH; "" is no plan. Mapped memory, if that was asked for,
// can't fail: an error, as is a plan with a link of a rank that the job has not. All
// ranks must give the same.
func WithFaults(plan string) Option {
	return func(s *settings) error {
		s.given["WEFT_FAULTS"] = true
		s.faults = plan
		if plan == "" || strings.HasPrefix(plan, "@") {
			return nil
		}
		p, err := faults.Parse(plan)
		if err != nil {
			return fmt.Errorf("%w: faults: %w", ErrArgument, err)
		}
		s.faults = p.String() // the same plan is the same text on all ranks
		return nil
	}
}

// WithFaultLog has the software fabric log every fault that it makes happen
// (WEFT_FAULTS_LOG): rank R to the file PATH.R, in lines of JSON. On another transport
// it is an error.
func WithFaultLog(path string) Option {
	return func(s *settings) error {
		s.given["WEFT_FAULTS_LOG"] = true
		s.faultLog = path
		return nil
	}
}

// WithReroute says whether messages go another way where a link of the software fabric
// does not work (WEFT_REROUTE: 1 or 0), as they do by default: the first [Way] that
// does. If not, the call fails on all ranks, with a [transport.FabricError] of the rank
// that used the link. All ranks must give the same.
func WithReroute(on bool) Option {
	if on {
		return WithRerouteBy(allWays[:]...)
	}
	return WithRerouteBy()
}

// WithRerouteBy has messages go by the given ways only where a link does not work, in
// the order of [Way] (WEFT_REROUTE: a list, such as alias,channel). Without any it is
// WithReroute(false). Without [ByChannel] a call fails as well when so much was reported
// that no memory is left to send it again. All ranks must give the same.
func WithRerouteBy(ways ...Way) Option {
	return func(s *settings) error {
		s.given["WEFT_REROUTE"] = true
		var set waySet
		for _, w := range ways {
			i := slices.Index(allWays[:], w)
			if i < 0 {
				return fmt.Errorf("%w: %q is none of the ways %s", ErrArgument, w, waySet(1<<len(allWays)-1).list())
			}
			set |= 1 << i
		}
		s.reroute = set
		return nil
	}
}

// A Way is one around a link that does not work.
type Way string

// The ways, in the order in which they are tried.
const (
	// ByAlias is by a second id of the same endpoint.
	ByAlias Way = "alias"
	// ByPointer is through a pointer to the peer's memory, if that can be had.
	ByPointer Way = "pointer"
	// ByChannel is over the control channel.
	ByChannel Way = "channel"
)

var allWays = [...]Way{ByAlias, ByPointer, ByChannel}

// waySet has bit i for the i-th way.
type waySet uint8

func (s waySet) has(w Way) bool { return s>>slices.Index(allWays[:], w)&1 != 0 }

// String is as WEFT_REROUTE has it: the same set is the same text on all ranks.
func (s waySet) String() string {
	switch s {
	case 0:
		return "0"
	case 1<<len(allWays) - 1:
		return "1"
	}
	return s.list()
}

func (s waySet) list() string {
	var names []string
	for _, w := range allWays {
		if s.has(w) {
			names = append(names, string(w))
		}
	}
	return strings.Join(names, ",")
}

// parseReroute reads the value of WEFT_REROUTE.
func parseReroute(v string) (Option, error) {
	if on, err := strconv.ParseBool(v); err == nil {
		return WithReroute(on), nil
	}
	var ways []Way
	for name := range strings.SplitSeq(v, ",") {
		w := Way(strings.TrimSpace(name))
		if !slices.Contains(allWays[:], w) {
			return nil, fmt.Errorf("%w: %q; it is 1, 0, or a list of alias, pointer, channel", ErrArgument, v)
		}
		ways = append(ways, w)
	}
	return WithRerouteBy(ways...), nil
}

// WithAlgorithm says which algorithms collectives may use (WEFT_ALGO): a list of
// names for all collectives, then lists for some of them, as in
// "ring,tree;allreduce:^ring;broadcast:tree". A list that begins with ^ excludes
// its names. Of the algorithms allowed the one that should be fastest is used;
// "weft plan -list" lists all. All ranks must give the same.
func WithAlgorithm(spec string) Option {
	return func(s *settings) error {
		s.given["WEFT_ALGO"] = true
		s.algorithm = spec
		return nil
	}
}

// algorithmCheck says what is wrong with the text that [WithAlgorithm] takes.
var algorithmCheck atomic.Pointer[func(spec string) error]

// CheckAlgorithms has [Init] and [Local] refuse what check does of that which
// [WithAlgorithm] gave. It is for the package that knows the algorithms.
func CheckAlgorithms(check func(spec string) error) { algorithmCheck.Store(&check) }

// WithCommit has each collective call end with a vote on the control channel
// (WEFT_COMMIT=1), so that it has one outcome on all ranks: either all return its exact
// result, or all return the error that they agreed on. Without it, when the communicator
// ends, some ranks may have returned from a call that fails on others. A rank that was
// excluded ([ErrIsolated]) or is dead may have either outcome, and on one that calls Close
// while its call runs the call returns [ErrClosed] whatever the outcome. A vote costs each call one
// message from every rank to rank 0 and one back, some allocations for these, and has every
// call wait for all ranks. It is not for Send and Recv. All ranks must give the same.
func WithCommit() Option {
	return func(s *settings) error {
		s.given["WEFT_COMMIT"] = true
		s.commit = true
		return nil
	}
}

// WithDevice says which GPU this process's ranks have, by its number in this process
// (WEFT_DEVICE). By default the ranks of a node take turns: the local rank modulo the
// number of GPUs. GPUs are touched by calls on them only.
func WithDevice(ordinal int) Option {
	return func(s *settings) error {
		s.given["WEFT_DEVICE"] = true
		if ordinal < 0 {
			return fmt.Errorf("%w: device %d", ErrArgument, ordinal)
		}
		s.device = ordinal
		return nil
	}
}

// variables are those of the environment, with the options that they stand for.
var variables = []struct {
	name  string
	parse func(v string) (Option, error)
}{
	{"WEFT_TIMEOUT", func(v string) (Option, error) {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is not a duration such as 30s", ErrArgument, v)
		}
		return WithTimeout(d), nil
	}},
	{"WEFT_TRANSPORT", func(v string) (Option, error) { return WithTransport(strings.ToLower(v)), nil }},
	{"WEFT_FAULTS", func(v string) (Option, error) { return WithFaults(v), nil }},
	{"WEFT_FAULTS_LOG", func(v string) (Option, error) { return WithFaultLog(v), nil }},
	{"WEFT_REROUTE", parseReroute},
	{"WEFT_ALGO", func(v string) (Option, error) { return WithAlgorithm(v), nil }},
	{"WEFT_COMMIT", func(v string) (Option, error) {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is neither 1 nor 0", ErrArgument, v)
		}
		return func(s *settings) error { s.commit = on; return nil }, nil
	}},
	{"WEFT_DEVICE", func(v string) (Option, error) {
		i, err := strconv.Atoi(v)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is not the number of a device", ErrArgument, v)
		}
		return WithDevice(i), nil
	}},
	{"WEFT_LOG", func(v string) (Option, error) {
		var level slog.Level
		if err := level.UnmarshalText([]byte(v)); err != nil {
			return nil, fmt.Errorf("%w: %q; known are debug, info, warn, error", ErrArgument, v)
		}
		return WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))), nil
	}},
}

// configure applies the options, and the environment where they say nothing: a
// variable for which there is an option isn't looked at.
func configure(opts []Option, getenv func(string) string) (settings, error) {
	s := settings{timeout: DefaultTimeout, transport: "auto", reroute: 1<<len(allWays) - 1, device: -1, logger: slog.New(slog.DiscardHandler)}
	s.given = map[string]bool{}
	for _, o := range opts {
		if o == nil {
			return s, fmt.Errorf("weft: %w: nil option", ErrArgument)
		}
		if err := o(&s); err != nil {
			return s, fmt.Errorf("weft: %w", err)
		}
	}
	for _, v := range variables {
		text := getenv(v.name)
		if text == "" || s.given[v.name] {
			continue
		}
		o, err := v.parse(text)
		if err == nil {
			err = o(&s)
		}
		if err != nil {
			return s, fmt.Errorf("weft: %s: %w", v.name, err)
		}
	}
	if err := kernels.CheckLimit(getenv("WEFT_KERNELS")); err != nil {
		return s, fmt.Errorf("weft: WEFT_KERNELS: %w: %w", ErrArgument, err)
	}
	if s.faults != "" && s.transport == "auto" {
		s.transport = "fabric"
	}
	if _, isFabric := fabricModes[s.transport]; s.faults != "" && !isFabric {
		return s, fmt.Errorf("weft: %w: faults are for the fabric, the transport is %s", ErrArgument, s.transport)
	} else if s.faultLog != "" && !isFabric {
		return s, fmt.Errorf("weft: WEFT_FAULTS_LOG or WithFaultLog: %w: faults are those of the fabric, the transport is %s", ErrArgument, s.transport)
	}
	if check := algorithmCheck.Load(); check != nil {
		if err := (*check)(s.algorithm); err != nil {
			return s, fmt.Errorf("weft: WEFT_ALGO or WithAlgorithm: %w: %q: %w", ErrArgument, s.algorithm, err)
		}
	}
	return s, nil
}
