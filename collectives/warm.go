package collectives

import "unsafe"

// A recent tells what was written some calls ago and may still be in a processor's cache from
// what was not, by the calls alone. What the caller did meanwhile it does not see.
type recent struct {
	calls [4]struct {
		at    uintptr // of the result; only compared
		bytes int
	}
	next int
}

// warmBytes is what a rank's calls may have read and written since a result was last written
// where it counts as being in the cache: what processors share of it, for each.
const warmBytes = 16 << 20

// warm says whether a call's result lies where that of a call not long ago did. Each large
// call is to ask once.
func (r *recent) warm(dst []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(dst)))
	warm := false
	for i, moved := 1, len(dst); i <= len(r.calls); i++ {
		c := &r.calls[(r.next-i)&(len(r.calls)-1)]
		moved += c.bytes
		if 2*moved > warmBytes {
			break
		}
		if c.at == at && c.bytes > 0 {
			warm = true
			break
		}
	}
	c := &r.calls[r.next]
	c.at, c.bytes = at, len(dst)
	r.next = (r.next + 1) & (len(r.calls) - 1)
	return warm
}

// streams says whether a call's result had better go around the cache, as those of so many
// bytes do.
func (r *runner) streams(dst []byte, from int) bool {
	return len(dst) >= from && !(r.recent.warm(dst) && r.limits.warm)
}
