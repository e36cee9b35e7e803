//go:build linux && !android && (amd64 || arm64) && !nocuda && !mpi

// With the build tag mpi all of this would be the same.

package nccl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/bench/peers/nccl/nccltest"
	"github.com/weft-go/weft/internal/cuda/cudatest"
	"github.com/weft-go/weft/kernels"
)

// headers are the versions of nccl.h that this package is held against: the newest, the first
// with ncclAlltoAll, the last without it, and the last without windows.
var headers = []string{"2.32.3", "2.28.3", "2.27.7", "2.26.5"}

// values are what the C compiler says of nccl.h, and this package believes.
var values = map[string]uintptr{
	"sizeof(ncclUniqueId)":   unsafe.Sizeof(UniqueID{}),
	"sizeof(ncclComm_t)":     unsafe.Sizeof(Comm{}.handle),
	"sizeof(ncclResult_t)":   4,
	"sizeof(ncclDataType_t)": 4,
	"sizeof(ncclRedOp_t)":    4,
	"ncclSuccess":            success,
	"ncclInt8":               types[kernels.TypeInt8],
	"ncclUint8":              types[kernels.TypeUint8],
	"ncclInt32":              types[kernels.TypeInt32],
	"ncclUint32":             types[kernels.TypeUint32],
	"ncclInt64":              types[kernels.TypeInt64],
	"ncclUint64":             types[kernels.TypeUint64],
	"ncclFloat16":            types[kernels.TypeFloat16],
	"ncclFloat32":            types[kernels.TypeFloat32],
	"ncclFloat64":            types[kernels.TypeFloat64],
	"ncclBfloat16":           types[kernels.TypeBFloat16],
	"ncclSum":                operators[kernels.Sum],
	"ncclProd":               operators[kernels.Prod],
	"ncclMax":                operators[kernels.Max],
	"ncclMin":                operators[kernels.Min],
}

// windowValues are those that came with windows.
var windowValues = map[string]uintptr{
	"sizeof(ncclWindow_t)":    unsafe.Sizeof(Window(0)),
	"NCCL_WIN_COLL_SYMMETRIC": winCollSymmetric,
}

// parameters are what the functions take, as the calls in this package have it.
var parameters = [functionCount]string{
	fnGetVersion:           "int *",
	fnGetErrorString:       "ncclResult_t",
	fnGetLastError:         "ncclComm_t",
	fnGetUniqueID:          "ncclUniqueId *",
	fnCommInitRank:         "ncclComm_t *, int, ncclUniqueId, int",
	fnCommDestroy:          "ncclComm_t",
	fnCommAbort:            "ncclComm_t",
	fnAllReduce:            "const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t",
	fnReduce:               "const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t",
	fnBroadcast:            "const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t",
	fnReduceScatter:        "const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t",
	fnAllGather:            "const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t",
	fnSend:                 "const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t",
	fnRecv:                 "void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t",
	fnGroupStart:           "void",
	fnGroupEnd:             "void",
	fnMemAlloc:             "void **, size_t",
	fnMemFree:              "void *",
	fnCommWindowRegister:   "ncclComm_t, void *, size_t, ncclWindow_t *, int",
	fnCommWindowDeregister: "ncclComm_t, ncclWindow_t",
	fnAlltoAll:             "const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t",
}

// since are the versions that have functions first, as NCCL_VERSION_CODE, if not all do.
var since = map[function]int{fnMemAlloc: 21900, fnMemFree: 21900, fnCommWindowRegister: 22700, fnCommWindowDeregister: 22700, fnAlltoAll: 22800}

// TestHeader has a C compiler say what is in the real nccl.h, and compiles the double with it.
// The header is in a package of 350 MB: the newest is downloaded in CI, all of them with
// WEFT_TEST_LONG, and otherwise there are those that are there already.
func TestHeader(t *testing.T) {
	for i, version := range headers {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			include := header(t, version, os.Getenv("WEFT_TEST_LONG") != "" || i == 0 && os.Getenv("CI") != "")
			said := compiled(t, include)
			code, err := strconv.Atoi(said["NCCL_VERSION_CODE"])
			require.NoError(t, err)
			require.Equal(t, version, versionString(code))
			for c, v := range values {
				require.Equal(t, strconv.Itoa(int(v)), said[c], "%s", c)
			}
			for c, v := range windowValues {
				if code >= since[fnCommWindowRegister] {
					require.Equal(t, strconv.Itoa(int(v)), said[c], "%s", c)
				}
			}
			for f, name := range functionNames {
				want := "1"
				if code < since[function(f)] {
					want = ""
				}
				require.Equal(t, want, said[name], "%s(%s) in nccl.h is another function", name, parameters[f])
			}
			// The compiler refuses definitions that are not as declared.
			flags := []string{"-DNCCL_HEADER", "-I", include}
			if code < since[fnAlltoAll] {
				flags = append(flags, "-DOLD")
			}
			cuda, err := cudatest.IncludeDir(cudatest.Headers[0])
			require.NoError(t, err)
			require.NoError(t, nccltest.Compile(include, filepath.Join(include, "double.so"), append(flags, "-I", cuda)...))
		})
	}
}

// header returns a folder with nccl.h of a version, and with as much of CUDA's runtime as that
// needs.
func header(t *testing.T, version string, download bool) string {
	args := []string{"-n", version}
	if download {
		args = args[1:]
	}
	out, err := exec.Command("../../../scripts/nccl-header", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skip("nccl.h is not here: WEFT_TEST_LONG=1 downloads it")
	}
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "nccl.h"))
	require.NoError(t, err)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"nccl.h":         string(text),
		"cuda_fp16.h":    "",
		"cuda_runtime.h": "#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// compiled runs a program that says what the header has.
func compiled(t *testing.T, include string) map[string]string {
	lines := []string{
		"#include <nccl.h>", "#include <stdio.h>",
		`#define SAY(x) printf("%s|%llu\n", #x, (unsigned long long)(x));`,
		// SAY would have the macro's value for a name.
		`int main(void) {`, `printf("NCCL_VERSION_CODE|%d\n", NCCL_VERSION_CODE);`,
	}
	guarded := func(since int, line string) {
		lines = append(lines, fmt.Sprintf("#if NCCL_VERSION_CODE >= %d\n%s\n#endif", since, line))
	}
	for c := range values {
		lines = append(lines, "SAY("+c+")")
	}
	for c := range windowValues {
		guarded(since[fnCommWindowRegister], fmt.Sprintf(`printf("%s|%%llu\n", (unsigned long long)(%s));`, c, c))
	}
	for f, name := range functionNames {
		require.NotEmpty(t, parameters[f], name)
		result := "ncclResult_t"
		if f := function(f); f == fnGetErrorString || f == fnGetLastError {
			result = "const char *"
		}
		guarded(since[function(f)], fmt.Sprintf(`printf("%s|%%d\n", __builtin_types_compatible_p(__typeof__(%s), %s(%s)));`, name, name, result, parameters[f]))
	}
	lines = append(lines, "return 0;", "}", "")
	source, program := filepath.Join(include, "header.c"), filepath.Join(include, "header")
	require.NoError(t, os.WriteFile(source, []byte(strings.Join(lines, "\n")), 0o600))
	require.NoError(t, cudatest.Compile("-I", include, "-Wno-strict-prototypes", "-o", program, source))
	out, err := exec.Command(program).Output()
	require.NoError(t, err)
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "|")
		require.True(t, ok, line)
		said[key] = value
	}
	return said
}
