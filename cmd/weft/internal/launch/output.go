package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLine bounds what is kept of a line that does not end; a longer one is
	// written in pieces.
	maxLine = 16 << 20
	// maxLate and lateWait bound what is read from a pipe that a process
	// outside the job holds open, after the job has ended.
	maxLate  = 1 << 20
	lateWait = 100 * time.Millisecond
)

// output joins the output of all ranks without mixing lines.
type output struct {
	mu     sync.Mutex // one for both: they may be the same terminal
	stdout sink
	stderr sink
	prefix bool

	late    atomic.Bool // all ranks have ended
	pipes   []*os.File
	copying sync.WaitGroup
}

// A sink is one of the launcher's two output streams.
type sink struct {
	w    io.Writer
	open *stream // wrote last, and left its line unfinished
	err  error
}

// A stream is one output of one rank.
type stream struct {
	out    *output
	to     *sink
	prefix string
	line   []byte // begun, not ended yet
	block  []byte // scratch
}

func newOutput(stdout, stderr io.Writer, prefix bool) *output {
	return &output{stdout: sink{w: stdout}, stderr: sink{w: stderr}, prefix: prefix}
}

// say writes one line to the standard error.
func (o *output) say(line string) {
	s := stream{out: o, to: &o.stderr}
	_ = s.write([]byte(line + "\n"))
}

// copy passes on what comes from r until its end, and closes it.
func (o *output) copy(r *os.File, to *sink, prefix string) {
	if !o.prefix {
		prefix = ""
	}
	s := &stream{out: o, to: to, prefix: prefix}
	o.pipes = append(o.pipes, r)
	o.copying.Go(func() {
		// On a failed write too: the rank then meets the broken pipe itself.
		defer r.Close()
		s.copy(r)
	})
}

// close waits for the rest of the output; all ranks must have ended.
func (o *output) close() {
	o.late.Store(true)
	for _, r := range o.pipes {
		_ = r.SetReadDeadline(time.Now()) // wakes the reader, see read
	}
	o.copying.Wait()
}

func (s *stream) copy(r *os.File) {
	buf := make([]byte, 64<<10)
	late := 0
	for late < maxLate {
		n, err := s.read(r, buf)
		if s.out.late.Load() {
			late += n
		}
		if s.add(buf[:n]) != nil {
			return
		}
		if err != nil {
			break
		}
	}
	if len(s.line) > 0 {
		_ = s.flush()
	}
}

// read reads from r, only as long as it is likely to bring something once the
// ranks have ended.
func (s *stream) read(r *os.File, buf []byte) (int, error) {
	for {
		late := s.out.late.Load()
		if late {
			_ = r.SetReadDeadline(time.Now().Add(lateWait))
		}
		n, err := r.Read(buf)
		if !late && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		return n, err
	}
}

// add takes the next bytes and writes the lines that they complete.
func (s *stream) add(b []byte) error {
	end := bytes.LastIndexByte(b, '\n') + 1
	if end > 0 {
		s.line = append(s.line, b[:end]...)
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.line = append(s.line, b[end:]...)
	if len(s.line) > maxLine {
		return s.flush()
	}
	return nil
}

// flush writes what has been gathered.
func (s *stream) flush() error {
	b := s.line
	if s.prefix != "" {
		s.block = s.block[:0]
		for line := range bytes.Lines(s.line) {
			s.block = append(append(s.block, s.prefix...), line...)
		}
		if b = s.block; b[len(b)-1] != '\n' {
			s.block = append(b, '\n')
			b = s.block
		}
	}
	s.line = s.line[:0]
	return s.write(b)
}

// write writes b at once, on a line of its own.
func (s *stream) write(b []byte) error {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	if s.to.err != nil {
		return s.to.err
	}
	if s.to.open != nil && s.to.open != s {
		_, _ = s.to.w.Write([]byte{'\n'})
	}
	s.to.open = nil
	if b[len(b)-1] != '\n' {
		s.to.open = s
	}
	_, s.to.err = s.to.w.Write(b)
	return s.to.err
}
