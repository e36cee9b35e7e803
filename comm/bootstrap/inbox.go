package bootstrap

import (
	"fmt"
	"sync"
)

// An arrival waits in an inbox: a message, or the end.
type arrival struct {
	msg  Message
	end  bool
	tell bool  // the handler hears of the end
	err  error // with this
}

// An inbox takes what one rank of this process sends to one rank of this
// process (perhaps itself) and hands it to the receiver's handler, in order.
// The goroutine that does so lives as long as there is something to hand over.
type inbox struct {
	from int

	mu      sync.Mutex
	handler Handler // nil before start
	queue   []arrival
	bytes   int
	busy    bool          // a goroutine delivers
	ended   bool          // the end is queued
	done    chan struct{} // closed when the end has been delivered
}

func newInbox(from int) *inbox { return &inbox{from: from, done: make(chan struct{})} }

// start begins delivery.
func (b *inbox) start(h Handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handler = h
	b.wake()
}

// wake makes sure that somebody delivers. b.mu is held.
func (b *inbox) wake() {
	if b.handler != nil && !b.busy && len(b.queue) > 0 {
		b.busy = true
		go b.deliver()
	}
}

// send queues a copy of m. It fails with ErrChannelClosed after the end, and
// with ErrUnresponsive when too much is waiting.
func (b *inbox) send(m Message) error {
	a := arrival{msg: m}
	a.msg.Files = nil
	for _, f := range m.Files {
		dup, err := dupFile(f)
		if err != nil {
			closeFiles(a.msg.Files)
			return fmt.Errorf("weft: send: %w: %w", ErrMessage, err)
		}
		a.msg.Files = append(a.msg.Files, dup)
	}
	if len(m.Data) > 0 {
		a.msg.Data = append([]byte(nil), m.Data...)
	} else {
		a.msg.Data = nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		closeFiles(a.msg.Files)
		return ErrChannelClosed
	case b.bytes+a.cost() > maxQueue:
		closeFiles(a.msg.Files)
		return ErrUnresponsive
	}
	b.bytes += a.cost()
	b.queue = append(b.queue, a)
	b.wake()
	return nil
}

func (a *arrival) cost() int { return headerLen + len(a.msg.Data) + fileCost*len(a.msg.Files) }

// end ends the inbox after what is queued, without a word to the handler.
func (b *inbox) end() { b.finish(arrival{end: true}) }

// gone ends the inbox after what is queued; the handler hears err.
func (b *inbox) gone(err error) { b.finish(arrival{end: true, tell: true, err: err}) }

func (b *inbox) finish(a arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.ended = true
		b.queue = append(b.queue, a)
		b.wake()
	}
}

func (b *inbox) deliver() {
	for {
		b.mu.Lock()
		if len(b.queue) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		batch := b.queue
		b.queue = nil
		h := b.handler
		b.mu.Unlock()
		for i := range batch {
			a := &batch[i]
			if a.end {
				if a.tell {
					h.HandleGone(b.from, a.err)
				}
				close(b.done)
				continue
			}
			cost := a.cost()
			h.HandleMessage(b.from, a.msg)
			b.mu.Lock()
			b.bytes -= cost
			b.mu.Unlock()
			*a = arrival{}
		}
	}
}

// discard is the handler of a channel that closes before it was started.
type discard struct{}

func (discard) HandleMessage(_ int, m Message) { closeFiles(m.Files) }
func (discard) HandleGone(int, error)          {}

var _ Handler = discard{}
