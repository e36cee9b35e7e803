package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-go/weft/kernels"
)

// typeNames are the names that nccl-tests uses for types, in its order, and
// the two types that it has not.
var typeNames = []struct {
	name string
	typ  kernels.Type
}{
	{"int8", kernels.TypeInt8}, {"uint8", kernels.TypeUint8},
	{"int32", kernels.TypeInt32}, {"uint32", kernels.TypeUint32},
	{"int64", kernels.TypeInt64}, {"uint64", kernels.TypeUint64},
	{"half", kernels.TypeFloat16}, {"float", kernels.TypeFloat32},
	{"double", kernels.TypeFloat64}, {"bfloat16", kernels.TypeBFloat16},
	{"f8e4m3", kernels.TypeFloat8E4M3}, {"f8e5m2", kernels.TypeFloat8E5M2},
	{"int16", kernels.TypeInt16}, {"uint16", kernels.TypeUint16},
}

func typeName(t kernels.Type) string {
	for _, n := range typeNames {
		if n.typ == t {
			return n.name
		}
	}
	return t.String()
}

// parseTypes reads "float", "float,half" or "all"; weft's own names are taken too.
func parseTypes(s string) ([]kernels.Type, error) {
	var types []kernels.Type
	if s == "all" {
		for _, n := range typeNames {
			types = append(types, n.typ)
		}
		return types, nil
	}
	for _, name := range strings.Split(s, ",") {
		own, _ := kernels.ParseType(name)
		found := kernels.TypeInvalid
		var known []string
		for _, n := range typeNames {
			if n.name == name || n.typ == own {
				found = n.typ
			}
			known = append(known, n.name)
		}
		if found == kernels.TypeInvalid {
			return nil, fmt.Errorf("type %q; known are %s, all", name, strings.Join(known, ", "))
		}
		types = append(types, found)
	}
	return types, nil
}

// allOps are the operators of nccl-tests, in its order. All of typeNames have them.
var allOps = []kernels.Op{kernels.Sum, kernels.Prod, kernels.Max, kernels.Min, kernels.Avg}

// parseOps reads "sum", "sum,max" or "all".
func parseOps(s string) ([]kernels.Op, error) {
	if s == "all" {
		return allOps, nil
	}
	var ops []kernels.Op
	for _, name := range strings.Split(s, ",") {
		op, err := kernels.ParseOp(name)
		if err != nil || !slices.Contains(allOps, op) {
			return nil, fmt.Errorf("operator %q; known are sum, prod, max, min, avg, all", name)
		}
		ops = append(ops, op)
	}
	return ops, nil
}
