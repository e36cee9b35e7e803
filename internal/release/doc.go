// Package release has the store that publishes a word and costs next to nothing: Go's
// own atomic stores wait until all processors see them, and with them all stores before,
// which takes longer than many a call of a few bytes has.
package release
