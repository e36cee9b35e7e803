package comm

import (
	"fmt"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/pointer"
)

// fabricModes are the modes of the software fabric by the names of transports.
var fabricModes = map[string]fabric.Mode{
	"fabric": fabric.ModeDefault, "fabric:strict": fabric.ModeStrict, "fabric:fast": fabric.ModeFast,
}

// openTransport makes the transport of a rank. Ranks of one process share a heap,
// others pass descriptors.
func openTransport(ch bootstrap.Channel, inProcess bool, s settings) (transport.Transport, error) {
	local := inProcess || ch.Size() == 1
	mode, isFabric := fabricModes[s.transport]
	switch {
	case isFabric:
		options := []fabric.Option{fabric.WithMode(mode), fabric.WithRank(ch.Rank()), fabric.WithFaults(s.faults)}
		open := fabric.NewShared
		if local {
			open = fabric.NewLocal
		}
		t, err := open(options...)
		if err != nil {
			return nil, fmt.Errorf("weft: rank %d: %w", ch.Rank(), err)
		}
		return t, nil
	case local:
		return pointer.NewLocal(), nil
	}
	return pointer.NewShared(), nil
}
