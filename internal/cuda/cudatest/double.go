//go:build linux && !android && (amd64 || arm64) && !nocuda

package cudatest

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/internal/dl"
)

// Headers are the packages with the cuda.h that the layouts are held against,
// from newest to oldest. The double is built with the first.
var Headers = []string{"nvidia-cuda-runtime==13.5.37", "nvidia-cuda-runtime-cu12==12.9.79"}

//go:embed testdata/double.c
var source []byte

// Library returns the path of the double's library, which is compiled the first time
// and kept beside the headers. It is no driver but in the tests: $WEFT_CUDA_DRIVER has
// the package cuda take it, in this process or others.
//
// In the environment, WEFT_DOUBLE_DEVICES says how many devices there are (2),
// WEFT_DOUBLE_APART that they don't reach each other, WEFT_DOUBLE_QUIET that calls are
// not to be written down, and WEFT_DOUBLE_MS how long passes between two events (1.5 ms).
func Library() (string, error) {
	include, err := IncludeDir(Headers[0])
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(Headers[0]), source...))
	dir := filepath.Join(include, "../../..")
	library := filepath.Join(dir, fmt.Sprintf("libdouble-%x.so", sum[:8]))
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	temp, err := os.MkdirTemp(dir, "double")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	c, out := filepath.Join(temp, "double.c"), filepath.Join(temp, "libdouble.so")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		return "", err
	}
	if err := Compile("-O1", "-fPIC", "-shared", "-pthread", "-I", include, "-o", out, c); err != nil {
		return "", err
	}
	return library, os.Rename(out, library)
}

// Use has the package cuda take the double, in this process and those it starts, unless
// WEFT_TEST_GPU is set, for tests that are to run on what the machine has. It returns the double,
// or nil.
func Use(t testing.TB) *Double {
	t.Helper()
	if os.Getenv("WEFT_TEST_GPU") != "" {
		return nil
	}
	library, err := Library()
	require.NoError(t, err)
	require.NoError(t, os.Setenv("WEFT_CUDA_DRIVER", library)) // for all tests: a process has one driver
	return Open(t, library)
}

// Compile runs the C compiler with its warnings as errors.
func Compile(args ...string) error {
	args = append([]string{"-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"}, args...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	if err != nil {
		return &buildError{err, string(out)}
	}
	return nil
}

type buildError struct {
	err    error
	output string
}

func (e *buildError) Error() string { return "gcc: " + e.err.Error() + "\n" + e.output }
func (e *buildError) Unwrap() error { return e.err }

// IncludeDir returns the folder of the cuda.h in a package, which is downloaded the first time.
func IncludeDir(pkg string) (string, error) {
	root, err := os.Getwd()
	for ; err == nil && root != "/"; root = filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
	}
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "scripts/cuda-wheels"), pkg)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", &buildError{err, stderr.String()}
	}
	found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "nvidia/*/include/cuda.h"))
	if err != nil || len(found) != 1 {
		return "", &buildError{os.ErrNotExist, "cuda.h in " + pkg}
	}
	return filepath.Dir(found[0]), nil
}

// Double is the double as it is loaded in this process.
type Double struct {
	take, fail, nothing uintptr
}

// Open loads the library, or attaches to it if it is loaded.
func Open(t testing.TB, library string) *Double {
	t.Helper()
	handle, err := dl.Open(library)
	require.NoError(t, err)
	d := &Double{}
	for name, address := range map[string]*uintptr{"weftDoubleTake": &d.take, "weftDoubleFail": &d.fail, "weftDoubleNothing": &d.nothing} {
		*address = dl.Symbol(handle, name)
		require.NotZero(t, *address, name)
	}
	return d
}

// Calls returns the calls since it was last asked, a line each: the function and
// its arguments, other than addresses.
func (d *Double) Calls() []string {
	buffer := make([]byte, 1<<20)
	n := dl.Call(d.take, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	return strings.Split(strings.TrimSuffix(string(buffer[:n]), "\n"), "\n")
}

// Fail has the next call of a function, by its versioned name, return a code.
func (d *Double) Fail(function string, code int) {
	name := append([]byte(function), 0)
	dl.Call(d.fail, uintptr(unsafe.Pointer(&name[0])), uintptr(code))
}

// Other calls a function of the driver that the package cuda has no use for, in the driver's
// library of that name, and returns its code. Pointers are turned into integers in the call.
//
//go:uintptrescapes
func Other(t testing.TB, library, function string, args ...uintptr) int {
	t.Helper()
	handle, err := dl.Open(library)
	require.NoError(t, err)
	address := dl.Symbol(handle, function)
	require.NotZero(t, address, function)
	return int(int32(dl.Call(address, args...)))
}

// Nothing is the address of a C function without arguments that does nothing.
func (d *Double) Nothing() uintptr { return d.nothing }
