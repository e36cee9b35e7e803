//go:build linux && !android && (amd64 || arm64) && !nocuda

package cuda

import (
	"os"
	"testing"

	"github.com/weft-go/weft/internal/cuda/cudatest"
)

// library is the double's path, and none where it can't be built: the tests say why.
var library string

var libraryErr error

func TestMain(m *testing.M) {
	// With a prepared library the tests also run where there is no compiler.
	if library = os.Getenv("WEFT_TEST_CUDA_DOUBLE"); library == "" {
		library, libraryErr = cudatest.Library()
	}
	os.Exit(m.Run())
}
