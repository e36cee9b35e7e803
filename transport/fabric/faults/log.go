package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/weft-go/weft/transport"
)

// A Record is one injected fault.
type Record struct {
	Link  Link   // without wildcards
	Phase uint64 // number of the phase on the link
	Ops   OpSet  // kinds of the operations in it
	Fault Fault  // not the zero Fault
}

// A Log writes records, each as a line of JSON in one Write. It may be used from
// several goroutines at once.
type Log struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewLog returns a Log that writes to w.
func NewLog(w io.Writer) *Log { return &Log{w: w} }

// Add writes a record. It blocks as long as the writer does. Nothing more is
// written after an error; see [Log.Err].
func (l *Log) Add(r Record) {
	text, err := r.encode()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if err == nil {
		_, err = l.w.Write(text)
	}
	l.err = err
}

// Err returns the first error of a write.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// line is a record as JSON has it. Pointers tell what is missing from what is zero.
type line struct {
	Link  *string  `json:"link"`
	Phase *uint64  `json:"phase"`
	Ops   []string `json:"ops"`
	Kind  *string  `json:"kind"`
	Seed  *string  `json:"seed"` // text: readers of JSON may round large numbers
}

func (r Record) encode() ([]byte, error) {
	link, kind, seed := r.Link.String(), r.Fault.Kind.String(), strconv.FormatUint(r.Fault.Seed, 10)
	ops := []string{}
	for k := range transport.OpKind(numOps) {
		if r.Ops.Has(k) {
			ops = append(ops, k.String())
		}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text) // ends the line
	e.SetEscapeHTML(false)      // a link's > stays readable
	err := e.Encode(line{&link, &r.Phase, ops, &kind, &seed})
	return text.Bytes(), err
}

func (r *Record) decode(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return plain(err)
	}
	if l.Link == nil || l.Phase == nil || l.Ops == nil || l.Kind == nil || l.Seed == nil {
		return errors.New("link, phase, ops, kind or seed is missing")
	}
	if len(l.Ops) == 0 {
		return errors.New("ops is empty: a phase in which nothing is done has no faults")
	}
	link, ok := parseLink(*l.Link)
	if !ok || !link.concrete() {
		return fmt.Errorf("%q is not a link", *l.Link)
	}
	*r = Record{Link: link, Phase: *l.Phase}
	for _, name := range l.Ops {
		k, err := opNamed(name)
		if err != nil {
			return err
		}
		r.Ops = r.Ops.With(k)
	}
	var err error
	if r.Fault.Kind, err = kindNamed(*l.Kind); err != nil {
		return err
	}
	if r.Fault.Seed, err = strconv.ParseUint(*l.Seed, 10, 64); err != nil {
		return fmt.Errorf("seed %q is not a number below 2⁶⁴", *l.Seed)
	}
	return nil
}

// plain says what is wrong with a line of JSON in the terms of the log, not of Go.
func plain(err error) error {
	var typ *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &typ):
		return err
	case typ.Field == "":
		return fmt.Errorf("a line is an object, not a JSON %s", typ.Value)
	}
	want := "text"
	switch typ.Field {
	case "phase":
		want = "a number below 2⁶⁴"
	case "ops":
		want = "a list of operations"
	}
	return fmt.Errorf("%s is %s, not a JSON %s", typ.Field, want, typ.Value)
}

func opNamed(name string) (transport.OpKind, error) {
	for k := range transport.OpKind(numOps) {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("%q is not an operation", name)
}

func kindNamed(name string) (Kind, error) {
	for k := Drop; k <= Dead; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return None, fmt.Errorf("%q is not a kind of fault", name)
}

// A LogError says what is wrong with a log.
type LogError struct {
	Line int // counted from 1
	Err  error
}

func (e *LogError) Error() string { return fmt.Sprintf("fault log, line %d: %v", e.Line, e.Err) }

func (e *LogError) Unwrap() error { return e.Err }

// ReadLog reads what Logs wrote, in order. Empty lines are skipped. The error is a
// [*LogError], also for the reader's errors.
func ReadLog(r io.Reader) ([]Record, error) {
	var records []Record
	lines := bufio.NewScanner(r)
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var rec Record
		if err := rec.decode(lines.Bytes()); err != nil {
			return nil, &LogError{n, err}
		}
		records = append(records, rec)
	}
	if err := lines.Err(); err != nil {
		return nil, &LogError{n + 1, err}
	}
	return records, nil
}
