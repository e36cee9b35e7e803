package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, imports string
		why           string // "" if it is allowed
	}{
		{"examples/allreduce", "collectives comm kernels fmt", ""},
		{"cmd/weft", "cmd/weft/internal/launch comm/bootstrap internal/x", ""},
		{"bench/ring", "transport/fabric", ""},
		{"collectives", "collectives/plan comm transport/progress kernels internal/x", ""},
		{"comm", "comm/bootstrap transport/pointer", ""},
		{"comm/bootstrap", "github.com/emer/empi/mpi", ""},
		{"transport/fabric", "transport transport/pointer kernels", ""},
		{"kernels", "internal/cuda golang.org/x/sys/unix", ""},
		{"internal/tools/importcheck", "encoding/json", ""},
		{"internal/dl", "github.com/ebitengine/purego", ""},
		{"", "collectives", ""},

		{"collectives", "bench", "layer collectives may not import layer examples/bench/cmd"},
		{"collectives/plan", "examples/x", "layer collectives may not import layer examples/bench/cmd"},
		{"comm", "collectives", "layer comm may not import layer collectives"},
		{"comm/bootstrap", "collectives/plan", "layer comm may not import layer collectives"},
		{"transport", "comm", "layer transport may not import layer comm"},
		{"transport/progress", "comm/bootstrap", "layer transport may not import layer comm"},
		{"kernels", "transport", "layer kernels may not import layer transport"},
		{"internal/cuda", "kernels", "layer internal may not import layer kernels"},
		{"comm", "github.com/emer/empi/mpi", "only comm/bootstrap and bench/internal/harness may import github.com/emer/empi"},
		{"internal/cuda", "github.com/ebitengine/purego", "only internal/dl may import github.com/ebitengine/purego"},
		{"examples/allreduce", "github.com/emer/empi", "only comm/bootstrap and bench/internal/harness may import github.com/emer/empi"},
	} {
		t.Run(tc.name+" "+tc.imports, func(t *testing.T) {
			full := func(name string) string {
				if layerOf(name) < 0 {
					return name
				}
				return strings.TrimSuffix(module+"/"+name, "/")
			}
			var imports []string
			for _, imp := range strings.Fields(tc.imports) {
				imports = append(imports, full(imp))
			}
			var want []string
			if tc.why != "" {
				want = []string{full(tc.name) + " imports " + imports[0] + ": " + tc.why}
			}
			for _, p := range []pkg{
				{ImportPath: full(tc.name), Imports: imports},
				{ImportPath: full(tc.name), TestImports: imports, XTestImports: imports},
			} {
				require.Equal(t, want, check([]pkg{p}))
			}
		})
	}
}

func TestCheckUnknownPackage(t *testing.T) {
	found := check([]pkg{{ImportPath: module + "/commx"}, {ImportPath: "fmt"}})
	require.Equal(t, []string{module + "/commx: belongs to no layer; add it to importcheck"}, found)
}

func TestDecode(t *testing.T) {
	pkgs, err := decode(strings.NewReader(`{"ImportPath": "a", "Imports": ["b"]}
		{"ImportPath": "c", "XTestImports": ["d"]}`))
	require.NoError(t, err)
	require.Equal(t, []pkg{{ImportPath: "a", Imports: []string{"b"}}, {ImportPath: "c", XTestImports: []string{"d"}}}, pkgs)
	_, err = decode(strings.NewReader(`{"ImportPath": `))
	require.Error(t, err)
}
