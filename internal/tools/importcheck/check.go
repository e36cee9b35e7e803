package main

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/weft-go/weft"

// layers from top to bottom. A package may import its own layer and those
// below. Each name stands for the packages in that folder of the module and
// below it.
var layers = [][]string{
	{"examples", "bench", "cmd"},
	{"collectives"},
	{"comm"},
	{"transport"},
	{"kernels"},
	{"internal"},
}

// restricted are packages of others that only some packages of ours may import.
var restricted = map[string][]string{
	"github.com/emer/empi":         {"comm/bootstrap", "bench/internal/harness"}, // the latter measures it
	"github.com/ebitengine/purego": {"internal/dl"},
}

// pkg is what the go command says about a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// check returns a line for each import that is not allowed. Tests are held to
// the same rules.
func check(pkgs []pkg) []string {
	var found []string
	for _, p := range pkgs {
		name, ours := within(module, p.ImportPath)
		if !ours {
			continue
		}
		layer := layerOf(name)
		if layer < 0 {
			found = append(found, fmt.Sprintf("%s: belongs to no layer; add it to importcheck", p.ImportPath))
			continue
		}
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		slices.Sort(imports)
		for _, imp := range slices.Compact(imports) {
			if why := refuse(name, layer, imp); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imp, why))
			}
		}
	}
	return found
}

// refuse says why the package must not import imp, or nothing.
func refuse(name string, layer int, imp string) string {
	for other, only := range restricted {
		if _, is := within(other, imp); !is {
			continue
		}
		if !slices.ContainsFunc(only, func(p string) bool { _, may := within(p, name); return may }) {
			return fmt.Sprintf("only %s may import %s", strings.Join(only, " and "), other)
		}
	}
	target, ours := within(module, imp)
	if !ours {
		return ""
	}
	to := layerOf(target)
	if to < 0 || to >= layer {
		return ""
	}
	return fmt.Sprintf("layer %s may not import layer %s", title(layer), title(to))
}

// layerOf returns the index of a package's layer, or -1. The root package is
// the top of the module.
func layerOf(name string) int {
	if name == "" {
		return 0
	}
	return slices.IndexFunc(layers, func(folders []string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool {
			_, is := within(folder, name)
			return is
		})
	})
}

func title(layer int) string { return strings.Join(layers[layer], "/") }

// within tells whether path is root or below it, and where.
func within(root, path string) (rest string, is bool) {
	if path == root {
		return "", true
	}
	return strings.CutPrefix(path, root+"/")
}
