//go:build !linux

package pointer

import (
	"fmt"
	"runtime"

	"github.com/weft-go/weft/transport"
)

func newSharedMemory(uint64) (*memory, error) {
	return nil, fmt.Errorf("pointer: shared memory between processes on %s: %w", runtime.GOOS, transport.ErrUnsupported)
}

func importSharedMemory(transport.Exported, handle) (*memory, error) {
	return newSharedMemory(0)
}
