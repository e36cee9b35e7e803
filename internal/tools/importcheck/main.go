// Command importcheck fails if a package of this module imports one of a layer
// above its own, or a restricted package of another module. It is run in the
// module's root, and looks at the files for each set of build tags given:
//
//	go run ./internal/tools/importcheck "" mpi
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

func main() {
	tagSets := os.Args[1:]
	if len(tagSets) == 0 {
		tagSets = []string{""}
	}
	var found []string
	for _, tags := range tagSets {
		pkgs, err := list(tags)
		if err != nil {
			fmt.Fprintln(os.Stderr, "importcheck:", err)
			os.Exit(2)
		}
		found = append(found, check(pkgs)...)
	}
	slices.Sort(found)
	for _, v := range slices.Compact(found) {
		fmt.Println(v)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// list asks the go command for all packages of the module.
func list(tags string) ([]pkg, error) {
	// -e: what does not compile is another check's business.
	cmd := exec.Command("go", "list", "-e", "-tags", tags,
		"-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pkgs, err := decode(out)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	if len(pkgs) == 0 {
		return nil, errors.New("go list: no packages")
	}
	return pkgs, nil
}

// decode reads what "go list -json" prints.
func decode(r io.Reader) ([]pkg, error) {
	var pkgs []pkg
	for d := json.NewDecoder(r); ; {
		var p pkg
		switch err := d.Decode(&p); err {
		case nil:
			pkgs = append(pkgs, p)
		case io.EOF:
			return pkgs, nil
		default:
			return nil, err
		}
	}
}
