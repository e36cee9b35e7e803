//go:build linux && !android && (amd64 || arm64) && !nocuda

package nccltest

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-go/weft/internal/cuda/cudatest"
)

//go:embed testdata/double.c
var source []byte

// Library returns the path of the double's library, which is compiled the first time and kept
// beside CUDA's headers. $WEFT_NCCL has the package nccl take it, and WEFT_CUDA_DRIVER must
// name the driver's double. flags are for the compiler: -DOLD makes an older version.
//
// In the environment, WEFT_NCCL_DOUBLE_LOG is where calls are written down, and
// WEFT_NCCL_DOUBLE_FLAT says that there is no symmetric memory.
func Library(flags ...string) (string, error) {
	include, err := cudatest.IncludeDir(cudatest.Headers[0])
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(source[:len(source):len(source)], "%q %s", flags, cudatest.Headers[0]))
	dir := filepath.Join(include, "../../..")
	library := filepath.Join(dir, fmt.Sprintf("libnccldouble-%x.so", sum[:8]))
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	temp, err := os.MkdirTemp(dir, "nccldouble")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	out := filepath.Join(temp, "libnccl.so")
	if err := Compile(temp, out, append(flags, "-I", include)...); err != nil {
		return "", err
	}
	return library, os.Rename(out, library)
}

// Compile compiles the double in a folder.
func Compile(folder, out string, flags ...string) error {
	c := filepath.Join(folder, "double.c")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		return err
	}
	return cudatest.Compile(append([]string{"-O1", "-fPIC", "-shared", "-o", out, c}, flags...)...)
}
