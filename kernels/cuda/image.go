package cuda

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"sync"
)

var (
	//go:embed sm_80.cubin.gz
	sm80 []byte
	//go:embed sm_90.cubin.gz
	sm90 []byte
	//go:embed sm_100.cubin.gz
	sm100 []byte
	//go:embed compute_80.ptx.gz
	compute80 []byte
)

var images = struct {
	mu       sync.Mutex
	unpacked map[*byte][]byte
}{unpacked: map[*byte][]byte{}}

// Image is the compiled form of all kernels for devices of a compute capability and a driver
// that knows CUDA up to a version (13000 is 13.0): machine code, or what the driver compiles.
// It is unpacked on first use; the caller must not change it. Early: its kernels wait for
// the one in front of them themselves, so that they may be launched before that has ended.
// Devices before 8.0 have no image.
func Image(major, minor, driver int) (image []byte, early bool, err error) {
	packed := compute80
	switch {
	case major < 8:
		return nil, false, fmt.Errorf("no kernels for devices of compute capability %d.%d: it takes 8.0", major, minor)
	case major == 8:
		packed = sm80
	case major == 9:
		packed, early = sm90, true
	case major == 10 && driver >= 13000:
		packed, early = sm100, true
	}
	image, err = unpack(packed)
	return image, early, err
}

func unpack(packed []byte) ([]byte, error) {
	images.mu.Lock()
	defer images.mu.Unlock()
	image, ok := images.unpacked[&packed[0]]
	if ok {
		return image, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		image, err = io.ReadAll(z)
	}
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	images.unpacked[&packed[0]] = image
	return image, nil
}
