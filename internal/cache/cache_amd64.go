//go:build !race

package cache

//go:noescape
func stream(dst, src, next *byte, n int)

//go:noescape
func own(p *byte, n int)

//go:noescape
func fetch(p *byte, n int)

//go:noescape
func spread(dsts *[]byte, nDsts, at int, src *byte, n int, nexts *[]byte, nNexts, next int)

func fence()
