package lane

// Zones are places of a rank's own memory where gets and pull-reduces land, never
// the user's memory: a pull that was reported may land again at any time.
type Zones struct {
	retired []bool
	without switchboard
}

// NewZones returns n zones.
func NewZones(n int) *Zones { return &Zones{retired: make([]bool, n)} }

// Take returns a zone for a pull; the one that the last Take returned is free then.
// It returns false if none is left.
func (z *Zones) Take() (zone int, ok bool) {
	for i, retired := range z.retired {
		if !retired {
			return i, true
		}
	}
	return 0, false
}

// Retire takes a zone out of use for ever, whose pull was reported or given up.
func (z *Zones) Retire(zone int) {
	if z.without.on(retireZones) {
		z.retired[zone] = true
	}
}

// Releases are what the readers of a source have released.
type Releases struct {
	words   []uint64 // per reader: versions released
	without switchboard
}

// NewReleases returns the releases of n readers.
func NewReleases(n int) *Releases { return &Releases{words: make([]uint64, n)} }

// Release takes the value of a reader's word: it reads no version below.
func (r *Releases) Release(reader int, versions uint64) {
	r.words[reader] = max(r.words[reader], versions)
}

// Free says whether a version of the source may be overwritten.
func (r *Releases) Free(version uint64) bool {
	released := 0
	for _, w := range r.words {
		if w > version {
			released++
		}
	}
	return released == len(r.words) || released > 0 && !r.without.on(releaseAll)
}
