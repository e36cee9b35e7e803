//go:build !race

package cache

//go:noescape
func stream(dst, src *byte, n int)

//go:noescape
func own(p *byte, n int)

//go:noescape
func fetch(p *byte, n int)
