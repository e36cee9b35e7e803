// Package record is the format of results: one JSON object per line.
package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A Line is the result of one collective at one size, out of place or in place.
type Line struct {
	Library   string   `json:"library"` // whose time it is: weft, or another library and its version
	Coll      string   `json:"coll"`
	Algo      string   `json:"algo"`      // what ran, as the library says
	Transport string   `json:"transport"` // between the ranks
	Memory    string   `json:"memory"`    // symmetric or slice; on GPUs symmetric or plain
	Form      string   `json:"form"`      // of the calls: blocking, persistent or started; on GPUs graph or stream
	Device    string   `json:"device"`    // where the data are: cpu or cuda
	Ranks     int      `json:"ranks"`
	Bytes     int64    `json:"bytes"` // by the conventions of nccl-tests
	Count     int64    `json:"count"` // elements, likewise
	Type      string   `json:"type"`
	Op        string   `json:"op"`   // "none" if nothing is reduced
	Root      int      `json:"root"` // -1: none, or another one in each call
	InPlace   bool     `json:"inplace"`
	TimeUS    float64  `json:"time_us"` // the table's time: the median
	P50US     float64  `json:"p50_us"`
	P99US     float64  `json:"p99_us"`
	AlgBW     float64  `json:"algbw_gbs"`
	BusBW     *float64 `json:"busbw_gbs"` // null with one rank, for Barrier and for Scan, where it means nothing
	Wrong     *int64   `json:"wrong"`     // wrong elements on all ranks; null if not checked
	Peer      string   `json:"peer"`      // what it is compared with; empty if with nothing
	PeerP50US *float64 `json:"peer_p50_us"`
	Ratio     *float64 `json:"ratio"` // the peer's time by ours: above 1 ours is shorter
	Reports   uint64   `json:"reports"`
	Retries   uint64   `json:"retries"`
	Reroutes  uint64   `json:"reroutes"`
	ByAlias   uint64   `json:"by_alias,omitempty"`   // of those
	ByPointer uint64   `json:"by_pointer,omitempty"` // likewise

	MeanUS        float64  `json:"mean_us"`
	SpreadPct     float64  `json:"spread_pct"` // the median's, ±
	PeerSpreadPct *float64 `json:"peer_spread_pct"`
	Batch         int      `json:"batch"`   // calls that are timed together
	Batches       int      `json:"batches"` // how many of those
	Warm          bool     `json:"warm"`    // one buffer over and over

	// What a rank used of one processor while calls were timed, in percent, on
	// average; what of that was to wait, by an estimate; and per call. Missing in
	// older files, and of libraries that run on their own.
	CPUPct     *float64 `json:"cpu_pct,omitempty"`
	WaitPct    *float64 `json:"wait_pct,omitempty"`
	Yields     *float64 `json:"yields,omitempty"`
	Sleeps     *float64 `json:"sleeps,omitempty"`
	PeerCPUPct *float64 `json:"peer_cpu_pct,omitempty"` // of the peer in the same process

	// Only if the sweep was repeated.
	Cycles         int       `json:"cycles,omitempty"`        // how often it was
	CycleUS        []float64 `json:"cycle_us,omitempty"`      // each cycle's median
	PeerCycleUS    []float64 `json:"peer_cycle_us,omitempty"` // likewise, in the same cycles
	RatioSpreadPct *float64  `json:"ratio_spread_pct,omitempty"`

	Env Env `json:"env"`
}

// A Failure is the line of a run, or a part of it, that did not end well. It is
// told from a Line by its key error.
type Failure struct {
	Error string `json:"error"`
	Coll  string `json:"coll,omitempty"`
	Ranks int    `json:"ranks,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	Env   Env    `json:"env"`
}

// Env is what a result depends on and does not show.
type Env struct {
	Machine  string `json:"machine"`  // model of the processors
	Cores    int    `json:"cores"`    // of the machine
	Affinity string `json:"affinity"` // processors that each rank may run on
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
	MPI      string `json:"mpi"`
	GPU      string `json:"gpu,omitempty"`    // model, if the data are on GPUs
	Driver   string `json:"driver,omitempty"` // of GPUs
	NCCL     string `json:"nccl,omitempty"`   // of a peer, with the environment's settings for it
	Revision string `json:"revision"`         // of weft
	Command  string `json:"command"`
}

// A Writer writes lines, each at once and whole, so that what is there is valid
// whenever the program ends.
type Writer struct{ w io.Writer }

// NewWriter returns a Writer to w; a nil w throws lines away.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Write writes a [Line] or a [Failure].
func (w *Writer) Write(v any) error {
	if w == nil || w.w == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.w.Write(append(b, '\n'))
	return err
}

// Replace writes lines in the place of all that has been written, in one go. Only a
// regular file allows that: anything else gets lines that are the last, and
// no others.
func (w *Writer) Replace(lines []*Line, last bool) error {
	if w == nil || w.w == nil {
		return nil
	}
	f, ok := w.w.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode().IsRegular()
	}
	if !ok && !last {
		return nil
	}
	var all bytes.Buffer
	enc := json.NewEncoder(&all)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	size := int64(all.Len())
	if ok {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	if _, err := w.w.Write(all.Bytes()); err != nil {
		return err
	}
	if ok {
		return f.Truncate(size)
	}
	return nil
}

// Read reads lines and leaves failures out. Lines without a form are older than
// that, and of blocking calls.
func Read(r io.Reader) ([]Line, error) {
	var lines []Line
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		if len(s.Bytes()) == 0 {
			continue
		}
		var l struct {
			Line
			Error string `json:"error"`
		}
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if l.Form == "" {
			l.Form = "blocking"
		}
		if l.Error == "" {
			lines = append(lines, l.Line)
		}
	}
	return lines, s.Err()
}

// ReadFile reads the lines of a file.
func ReadFile(name string) ([]Line, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return lines, nil
}
