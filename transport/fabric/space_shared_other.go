//go:build !linux

package fabric

import (
	"fmt"
	"os"
	"runtime"

	"github.com/weft-go/weft/transport"
)

type fileIdentity struct{}

func newShared(*device, uint64) (ownSpace, error) {
	return nil, fmt.Errorf("fabric: shared memory between processes on %s: %w", runtime.GOOS, transport.ErrUnsupported)
}

func importShared(*os.File) (*device, error) {
	_, err := newShared(nil, 0)
	return nil, err
}

func identify(*os.File) (fileIdentity, error) { return fileIdentity{}, nil }
