// Command fabric shows how a scheme of communication is developed on the software
// fabric: two ranks exchange messages by counted puts. Each is a goroutine of this
// process. They run by turns, one piece of the fabric at a time, so that a run with
// the same flags is the same run.
//
//	go run ./examples/fabric
//	go run ./examples/fabric -mode strict -faults seed=7,rate=0.3
//
// The scheme is right under every plan of faults that leaves the links alive. -bug
// plants a mistake in it: with "fence" the receiver reads without the fence that
// must follow the counter, with "recount" the sender repeats a counted put that was
// reported. docs/fabric.md goes through what comes out.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/fabric"
)

// Each rank has an endpoint, which the other one writes. It holds two counters, for
// messages with even and with odd numbers, because a sender may be one message
// ahead of what the receiver awaits; a word that says how many messages were
// published without being counted; and a slot for each message, never used for
// another, so that what comes late overwrites nothing.
const (
	messages, messageBytes = 8, 1024

	publishedAt   = 2 * transport.CounterAlign // the counters are at 0 and CounterAlign
	slotsAt       = 3 * transport.CounterAlign
	endpointBytes = slotsAt + messages*messageBytes
)

func counterAt(k int) uint64 { return uint64(k % 2 * transport.CounterAlign) }
func slotAt(k int) uint64    { return uint64(slotsAt + k*messageBytes) }

// message is message k of a rank; no byte of it is zero.
func message(rank, k int) []byte {
	m := make([]byte, messageBytes)
	for i := range m {
		m[i] = byte(1 + (i+100*rank+10*k)%255)
	}
	return m
}

type rank struct {
	me        int
	bug       string
	out       io.Writer
	f         *fabric.Transport
	memory    transport.Memory
	view      fabric.View // of memory: accesses that the sanitizer sees
	own, peer transport.Endpoint
	phase     transport.Completion
	turn      func() bool // lets the fabric and the other rank go on; false: stop
	uncounted bool        // a counted put was reported: the peer's counters are worth nothing
	reports   int
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fabric:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("fabric", flag.ExitOnError)
	mode := flags.String("mode", "default", "mode of the fabric: default, strict or fast")
	plan := flags.String("faults", os.Getenv(fabric.FaultsVariable), "`plan` of faults, such as seed=7,rate=0.3")
	bug := flags.String("bug", "none", "mistake to plant: none, fence or recount")
	flags.Parse(args)
	modes := []string{"default", "strict", "fast"}
	if !slices.Contains(modes, *mode) || !slices.Contains([]string{"none", "fence", "recount"}, *bug) || flags.NArg() > 0 {
		return fmt.Errorf("-mode %s -bug %s %q: see -help", *mode, *bug, flags.Args())
	}
	return exchange(out, *bug, fabric.WithMode(fabric.Mode(slices.Index(modes, *mode))), fabric.WithFaults(*plan))
}

// exchange runs both ranks, on fabrics with these options, and checks what they got.
func exchange(out io.Writer, bug string, opts ...fabric.Option) error {
	var all [2]*rank
	for me := range all {
		f, err := fabric.NewLocal(append(opts, fabric.WithRank(me), fabric.WithSteps(), fabric.WithSeed(1))...)
		if err != nil {
			return err
		}
		defer f.Close()
		all[me] = &rank{me: me, bug: bug, out: out, f: f}
		if err := all[me].open(); err != nil {
			return err
		}
	}
	for me, r := range all { // both endpoints are bound by now
		handle, err := all[1-me].own.Export() // would travel over a control channel
		if err != nil {
			return err
		}
		if r.peer, err = r.f.Import(handle); err == nil {
			err = r.peer.Ready(context.Background())
		}
		if handle.Close(); err != nil {
			return err
		}
	}
	if err := byTurns(all[:]); err != nil {
		return err
	}
	for me, r := range all {
		fmt.Fprintf(out, "rank %d: %d reports, %d pieces late\n", me, r.reports, r.f.Late())
		r.f.Drain() // what is late must not change anything
	}
	for me, r := range all {
		r.f.Fence(transport.FenceAcquire)
		for k := range messages {
			if err := r.check(k); err != nil {
				return fmt.Errorf("rank %d: in the end, message %d: %w", me, k, err)
			}
		}
		// Close returns what the sanitizer found and no call returned.
		if err := errors.Join(r.f.Close(), r.memory.Free()); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d messages of %d bytes in each direction, all right\n", messages, messageBytes)
	return nil
}

// open makes this rank's endpoint and binds memory to it.
func (r *rank) open() error {
	var errs [4]error
	r.phase, errs[0] = r.f.NewCompletion(1)
	r.own, errs[1] = r.f.Create(transport.EndpointConfig{Size: endpointBytes, Counted: true})
	r.memory, errs[2] = r.f.Alloc(endpointBytes)
	r.view, errs[3] = r.f.View(r.memory)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	return errors.Join(r.own.Ready(context.Background()), r.own.Bind(0, r.memory))
}

// byTurns runs each rank until it has to wait, then the next one.
func byTurns(all []*rank) error {
	errs, goOn := make([]error, len(all)), make([]func() (struct{}, bool), len(all))
	for me, r := range all {
		var stop func()
		goOn[me], stop = iter.Pull(func(yield func(struct{}) bool) {
			r.turn = func() bool { r.f.Step(); return yield(struct{}{}) }
			for k := 0; k < messages && errs[me] == nil; k++ {
				if errs[me] = r.send(k); errs[me] == nil {
					errs[me] = r.receive(k)
				}
			}
		})
		defer stop()
	}
	for running := true; running; {
		running = false
		for me := range all {
			_, more := goOn[me]()
			if running = running || more; errs[me] != nil {
				return fmt.Errorf("rank %d: %w", me, errs[me])
			}
		}
	}
	return nil
}

// send has message k arrive, and be seen once, however often it is tried.
func (r *rank) send(k int) error {
	at, data := transport.Handle{ID: r.peer.ID(), Offset: slotAt(k)}, message(r.me, k)
	counted := func() error { return r.f.PutCounted(r.phase, at, data, counterAt(k)) }
	if !r.uncounted {
		if err := r.try(k, 1, counted); !errors.Is(err, errReported) { // nil as well
			return err
		}
		fmt.Fprintf(r.out, "rank %d: message %d: the counted put was reported\n", r.me, k)
		if r.bug == "recount" {
			return r.try(k, 100, counted)
		}
		// How much was counted, and what will be, nobody can tell. From now on
		// another word says what is there.
		r.uncounted = true
	}
	if err := r.try(k, 100, func() error { return r.f.Put(r.phase, at, data) }); err != nil {
		return err
	}
	word := make([]byte, transport.Granule)
	binary.NativeEndian.PutUint64(word, uint64(k+1))
	at.Offset = publishedAt
	return r.try(k, 100, func() error { return r.f.Red(r.phase, at, word, transport.RedMax, kernels.TypeUint64) })
}

var (
	errReported = errors.New("no clean report")
	errStopped  = errors.New("stopped")
)

// try makes an operation a phase of its own, again until its report is clean.
func (r *rank) try(k, attempts int, start func() error) error {
	for range attempts {
		if err := errors.Join(start(), r.phase.Submit(), r.phase.Arrive()); err != nil {
			return err
		}
		for !r.phase.Test() {
			if !r.turn() {
				return errStopped
			}
		}
		if report, err := r.phase.Report(); err != nil || report.Clean() {
			return err
		}
		r.reports++
	}
	return fmt.Errorf("message %d, %d attempts: %w", k, attempts, errReported)
}

// receive waits for message k and checks it.
func (r *rank) receive(k int) error {
	for {
		counted, err := r.view.Counter(counterAt(k), uint64((k/2+1)*messageBytes))
		if err != nil {
			return err
		}
		if counted || r.memory.Load(publishedAt) > uint64(k) {
			break
		}
		if !r.turn() {
			return errStopped
		}
	}
	if r.bug != "fence" {
		r.f.Fence(transport.FenceAcquire)
	}
	if err := r.check(k); err != nil {
		return fmt.Errorf("message %d: %w", k, err)
	}
	return nil
}

// check wants message k to be what it should be.
func (r *rank) check(k int) error {
	got, want := make([]byte, messageBytes), message(1-r.me, k)
	if err := r.view.Read(got, slotAt(k)); err != nil {
		return err
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d is %d, not %d; the counters are %d and %d",
				i, got[i], want[i], r.memory.Load(counterAt(0)), r.memory.Load(counterAt(1)))
		}
	}
	return nil
}
