package fabric

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric/faults"
)

// Limits are what a real fabric finds in its hardware. Zero fields have their
// defaults.
type Limits struct {
	// BindAlign is what endpoint sizes, and offsets and sizes of bindings, are
	// multiples of; itself a multiple of [transport.CounterAlign], its default.
	BindAlign uint64
	// MaxEndpointBytes bounds an endpoint's size; default 2⁴⁰ bytes.
	MaxEndpointBytes uint64
	// IDs is how many endpoint ids the process has; default 65536.
	IDs int
}

// An Option changes how a fabric behaves.
type Option func(*config) error

// config is what options change.
type config struct {
	mode      Mode
	rank      int
	seed      uint64
	limits    Limits
	support   Support
	cliques   map[CliqueType]uint32
	key       []byte
	decider   faults.Decider
	diagnose  func(error)
	arena     uint64 // 0 for what the system grants
	heldBack  bool   // operations wait for Step
	envFaults bool
}

func newConfig(opts []Option) (config, error) {
	c := config{
		rank: -1,
		seed: rand.Uint64(),
		support: Support{
			Unicast: true, Multicast: true, Counted: true, OwnerAccess: true, Reach: true,
		},
		cliques:   map[CliqueType]uint32{CliqueUnicast: 0, CliqueMulticast: 0},
		envFaults: true,
	}
	for i, o := range opts {
		if o == nil {
			return c, fmt.Errorf("fabric: option %d is nil: %w", i, transport.ErrUnsupported)
		}
		if err := o(&c); err != nil {
			return c, fmt.Errorf("fabric: %w", err)
		}
	}
	l := &c.limits
	if l.BindAlign == 0 {
		l.BindAlign = transport.CounterAlign
	}
	if l.MaxEndpointBytes == 0 {
		l.MaxEndpointBytes = 1 << 40
	}
	if l.IDs == 0 {
		l.IDs = 1 << 16
	}
	if l.BindAlign%transport.CounterAlign != 0 || l.BindAlign > 1<<30 || l.MaxEndpointBytes < l.BindAlign || l.MaxEndpointBytes > 1<<45 || l.IDs < 1 || int64(l.IDs) > math.MaxInt32 {
		return c, fmt.Errorf("fabric: limits %+v: %w", *l, transport.ErrBounds)
	}
	l.MaxEndpointBytes -= l.MaxEndpointBytes % l.BindAlign
	if c.envFaults {
		if err := c.faultsFromEnvironment(); err != nil {
			return c, fmt.Errorf("fabric: %w", err)
		}
	}
	return c, nil
}

// WithMode sets the mode.
func WithMode(m Mode) Option {
	return func(c *config) error {
		if m > ModeFast {
			return fmt.Errorf("mode %d: %w", m, transport.ErrBounds)
		}
		c.mode = m
		return nil
	}
}

// WithRank says which rank of its job this is. Fault plans and the sanitizer's
// errors name ranks by it. Without it errors have −1, and in fault plans the rank
// counts as 0.
func WithRank(rank int) Option {
	return func(c *config) error {
		if rank < 0 || rank > math.MaxInt32 {
			return fmt.Errorf("rank %d: %w", rank, transport.ErrBounds)
		}
		c.rank = rank
		return nil
	}
}

// WithSeed sets what the engine shuffles by; by default it is random.
func WithSeed(seed uint64) Option {
	return func(c *config) error { c.seed = seed; return nil }
}

// WithLimits sets limits, tiny ones for tests.
func WithLimits(l Limits) Option {
	return func(c *config) error { c.limits = l; return nil }
}

// WithSupport sets what the device can do. By default it can do everything.
func WithSupport(s Support) Option {
	return func(c *config) error { c.support = s; return nil }
}

// WithClique puts the device into the clique of a type with this id, instead of
// clique 0; several cliques of one type are not needed for anything here.
func WithClique(typ CliqueType, id uint32) Option {
	return func(c *config) error {
		if typ != CliqueUnicast && typ != CliqueMulticast {
			return fmt.Errorf("clique type %d: %w", typ, transport.ErrUnsupported)
		}
		c.cliques[typ] = id
		return nil
	}
}

// WithoutClique takes the device out of all cliques of a type.
func WithoutClique(typ CliqueType) Option {
	return func(c *config) error {
		if typ != CliqueUnicast && typ != CliqueMulticast {
			return fmt.Errorf("clique type %d: %w", typ, transport.ErrUnsupported)
		}
		delete(c.cliques, typ)
		return nil
	}
}

// WithJobKey sets the secret of a job. Handles are authenticated by it, so ranks
// with other keys refuse them.
func WithJobKey(key []byte) Option {
	return func(c *config) error { c.key = append([]byte(nil), key...); return nil }
}

// WithDiagnostics has f called with every error that the sanitizer finds after the
// call that is to blame has returned. f must not use the fabric. The errors are
// kept for [Transport.Diagnostics] as well.
func WithDiagnostics(f func(error)) Option {
	return func(c *config) error { c.diagnose = f; return nil }
}

// WithArena bounds the memory of one rank between processes, in bytes of address
// space, from 16 MiB on; memory is used only for what is allocated. Of it, 64 KiB
// and a quarter for the endpoints' own data, 64 MiB at most, can't be allocated, and each
// allocation takes whole pages and one more, in the strict mode half as much again. What
// is asked for is made or fails. The default, 64 GiB, is halved, down to 256 MiB, until
// the system grants it. Every importer maps all of it as well: under a limit on address
// space (ulimit -v), the arenas of all ranks must fit together.
func WithArena(bytes uint64) Option {
	return func(c *config) error {
		if bytes < minArena || bytes > math.MaxInt/2 {
			return fmt.Errorf("arena of %d bytes: %w", bytes, transport.ErrBounds)
		}
		c.arena = bytes
		return nil
	}
}

// WithSteps has submitted operations wait until [Transport.Step] executes them: a
// program under test sees every state that lies between two pieces. In the fast
// mode it is for operations under a fault plan only.
func WithSteps() Option {
	return func(c *config) error { c.heldBack = true; return nil }
}
