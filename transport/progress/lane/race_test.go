//go:build race

package lane

func init() { small = true }
