// Package dl calls functions of C libraries that are loaded while the program
// runs, without cgo. It is for Linux on amd64 and arm64; elsewhere, and with the
// build tag nocuda, [Built] is false and nothing can be loaded.
package dl
