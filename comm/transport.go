package comm

import (
	"fmt"
	"os"
	"strings"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/fabric/faults"
	"github.com/weft-go/weft/transport/pointer"
)

// fabricModes are the modes of the software fabric by the names of transports.
var fabricModes = map[string]fabric.Mode{
	"fabric": fabric.ModeDefault, "fabric:strict": fabric.ModeStrict, "fabric:fast": fabric.ModeFast,
}

// openTransport makes the transport of a rank. Ranks of one process share a heap,
// others pass descriptors. The file, which may be nil, is where faults are logged.
func openTransport(ch bootstrap.Channel, inProcess bool, s settings) (transport.Transport, *os.File, error) {
	local := inProcess || ch.Size() == 1
	mode, isFabric := fabricModes[s.transport]
	switch {
	case isFabric:
		return openFabric(ch.Rank(), ch.Size(), local, mode, s)
	case local:
		return pointer.NewLocal(), nil, nil
	}
	return pointer.NewShared(), nil, nil
}

func openFabric(rank, size int, local bool, mode fabric.Mode, s settings) (transport.Transport, *os.File, error) {
	d, err := decider(rank, size, s.faults)
	if err != nil {
		return nil, nil, err
	}
	var log *os.File
	if s.faultLog != "" {
		if log, err = os.Create(faultFile(s.faultLog, rank)); err != nil {
			return nil, nil, fmt.Errorf("%w: log of faults: %w", ErrArgument, err)
		}
		if d != nil {
			d = faults.NewRecorder(d, faults.NewLog(log).Add)
		}
	}
	open := fabric.NewShared
	if local {
		open = fabric.NewLocal
	}
	t, err := open(fabric.WithMode(mode), fabric.WithRank(rank), fabric.WithDecider(d))
	if err != nil {
		if log != nil {
			log.Close()
		}
		return nil, nil, err
	}
	return t, log, nil
}

// decider says which phases of a rank fail: by a plan, or, as "@PATH", as the log
// of another run has it.
func decider(rank, size int, plan string) (faults.Decider, error) {
	path, isLog := strings.CutPrefix(plan, "@")
	if isLog {
		if path == "" {
			return nil, fmt.Errorf("%w: faults: @ without the path of a log", ErrArgument)
		}
		f, err := os.Open(faultFile(path, rank))
		if err != nil {
			return nil, fmt.Errorf("%w: faults: %w", ErrArgument, err)
		}
		defer f.Close()
		records, err := faults.ReadLog(f)
		if err != nil {
			return nil, fmt.Errorf("%w: faults: %w", ErrArgument, err)
		}
		return faults.NewReplay(records)
	}
	if plan == "" {
		return nil, nil
	}
	p, err := faults.Parse(plan)
	if err == nil {
		err = p.Fits(size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: faults: %w", ErrArgument, err)
	}
	return faults.New(p)
}

// faultFile is where a rank's faults are logged: each rank decides for the phases
// that it starts.
func faultFile(path string, rank int) string { return fmt.Sprintf("%s.%d", path, rank) }
