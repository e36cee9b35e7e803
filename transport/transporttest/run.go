// Package transporttest checks that an implementation of [transport.Transport]
// keeps the contract. Every transport passes the same checks; what one need not
// have, by its [transport.Limits], is left out.
//
//	func TestContract(t *testing.T) {
//		transporttest.Run(t, func(t testing.TB, n int) []transport.Transport {
//			…
//		})
//	}
//
// The transports are to be free of faults: every phase must end clean. An endpoint
// must be allowed to have [EndpointBytes]; of larger ones, those checks that want them
// make as much use as Limits.MaxEndpointBytes lets them. If ids are scarce, each rank
// needs [IDs].
package transporttest

import (
	"testing"

	"github.com/weft-go/weft/transport"
)

const (
	// EndpointBytes is the smallest Limits.MaxEndpointBytes that the suite is for.
	EndpointBytes = 1 << 20
	// IDs is how many endpoint ids one rank needs at a time.
	IDs = 256
)

// New makes the transports of n ranks that are all in this process and can
// import each other's endpoints. The suite closes them.
type New func(t testing.TB, n int) []transport.Transport

// Run runs all checks.
func Run(t *testing.T, open New) {
	for _, c := range []struct {
		name  string
		check func(t *testing.T, open New)
	}{
		{"Put", checkPut},
		{"PutMasked", checkPutMasked},
		{"PutCounted", checkPutCounted},
		{"PutCountedParts", checkPutCountedParts},
		{"Stream", checkStream},
		{"Get", checkGet},
		{"Red", checkRed},
		{"RedCounted", checkRedCounted},
		{"Atom", checkAtom},
		{"OwnerAccess", checkOwnerAccess},
		{"Multicast", checkMulticast},
		{"MulticastFailure", checkMulticastFailure},
		{"Misuse", checkMisuse},
		{"UnknownEndpoint", checkUnknownEndpoint},
		{"Transactions", checkTransactions},
		{"Completion", checkCompletion},
		{"Lifecycle", checkLifecycle},
		{"Rebind", checkRebind},
		{"MalformedHandle", checkMalformedHandle},
		{"Close", checkClose},
		{"Memory", checkMemory},
		{"Map", checkMap},
		{"Concurrent", checkConcurrent},
		{"Contention", checkContention},
		{"Doorbell", checkDoorbell},
		{"DoorbellHammer", checkDoorbellHammer},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, open) })
	}
}
