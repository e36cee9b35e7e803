package transport

const (
	// Granule is the unit of remote offsets and lengths, in bytes.
	Granule = 16
	// CounterAlign is the alignment of counters, in bytes. A counter is 8 bytes
	// long and has the rest of its line for itself.
	CounterAlign = 256
	// MaxArrivals is the largest number of arrivals that a phase expects.
	MaxArrivals = 511
	// MaxTransactions is the largest number of transactions in flight in one
	// phase: 16-byte units for puts, reds and atoms, bytes for gets and pullreds.
	MaxTransactions = 1<<20 - 1
	// MaxPutBytes and MaxGetBytes are the byte counts that follow.
	MaxPutBytes = MaxTransactions * Granule
	MaxGetBytes = MaxTransactions / Granule * Granule
)

// Limits say what one transport can do beyond what the contract fixes.
type Limits struct {
	// MaxEndpointBytes bounds the size of an endpoint; 0 means no bound.
	MaxEndpointBytes uint64
	// BindAlign is the alignment of offsets and sizes given to Bind.
	BindAlign uint64
	// OwnerAccess says that an owner may use its own unicast endpoint.
	OwnerAccess bool
	// Rebind says that an endpoint takes several bindings, of ranges of it, and
	// that other memory can be bound behind an exported endpoint.
	Rebind bool
	// Multicast says that JoinMulticast works.
	Multicast bool
	// LateWrites says that a reported operation may still be executed after its
	// report. Transports without it never report either.
	LateWrites bool
}
