package progress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/progress/lane"
)

// Config says what an engine works on.
type Config struct {
	Transport transport.Transport
	Rank      int
	Layout    Layout
	Policy    WaitPolicy
	Stop      *Stop
	// Exchange is an all-gather among the engines of the communicator.
	Exchange transport.Exchange
	// Retry says how phases are tried again on a transport that may report them.
	Retry Retry
	// Detour, if not nil, brings m to the engine of a peer, to its Deliver, by another
	// way than the transport: once, without loss, after what went before. It is for
	// links that do not work, and only used on a transport that may fail. m is the
	// caller's again when it returns. The engine and its mail call it at the same time.
	Detour func(ctx context.Context, peer int, m []byte) error
	// Ways are those to go before that. There are none on a transport that can't fail.
	Ways Ways
	// Failed, if not nil, is told why New fails before New gives the memory up of which
	// the others may know already.
	Failed func(err error)
	// OnStall, if not nil, is called when a call waits for a peer for long, and
	// again from time to time. It must not block.
	OnStall func(peer int)
}

// An Engine is one rank's end of all lanes of a communicator.
type Engine struct {
	port
	cfg    Config
	layout Layout
	lanes  lanes

	space space // the endpoint's memory
	own   transport.Endpoint
	peers []transport.Endpoint // nil at this rank

	aliases []transport.Endpoint // of those, nil where there is none
	roads   []road               // by rank

	unset func() // takes the doorbell out of Stop

	out []outLane
	in  []inLane

	words []word // that a call waits for on a transport that may fail

	// What came by detour, by rank; mailArrived is nil if there is no mail.
	arrived, mailArrived []arrivals

	// tag of the current call
	seq, signature uint32
	used           bool // messages were sent, received or salted in it

	mail  *Mail // nil if the layout has no mail lanes
	group group // multicast memory

	shorts *shorts // nil where there are none
	stages *stages // likewise

	farness farness

	// Extension is for the layer above to keep its own state of the communicator.
	Extension any
}

// outLane is the sending end of the lane to one peer.
type outLane struct {
	outEnd
	part uint32 // messages of this call
	salt uint32 // see Engine.Salt
}

// inLane is the receiving end of the lane from one peer.
type inLane struct {
	inEnd
	credit lane.Word // at the peer: epochs released
	freed  uint64    // its last value
	part   uint32
	salt   uint32
	want   Tag // of the message that Recv waits for
	// old are the tags that lie in the slots of the primaries, by epoch mod K.
	old []Tag
}

// New makes the engine of one rank; all ranks of the communicator call it
// together.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, err
	}
	l := cfg.Layout.On(cfg.Transport.Limits())
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if cfg.Rank < 0 || cfg.Rank >= l.Ranks {
		return nil, fmt.Errorf("progress: rank %d of %d: %w", cfg.Rank, l.Ranks, transport.ErrBounds)
	}
	e := &Engine{
		port: port{t: cfg.Transport, rank: cfg.Rank},
		cfg:  cfg, layout: l,
		peers: make([]transport.Endpoint, l.Ranks),
		out:   make([]outLane, l.Ranks), in: make([]inLane, l.Ranks),
	}
	var mail lanes
	e.lanes, mail = l.complete()
	if err := e.connect(ctx); err != nil {
		return nil, e.notMade(err)
	}
	var err error
	if e.port, err = newPort(&cfg, &e.space, e.roads, e.newWaiter()); err != nil {
		return nil, e.notMade(err)
	}
	e.wait.onStall, e.wait.hopeless = cfg.OnStall, e.mismatch
	e.arrived = make([]arrivals, l.Ranks)
	for i := range e.out {
		e.out[i].outEnd = e.newOut(i, &e.lanes, &e.arrived[i])
		e.in[i].inEnd = newIn(&e.lanes)
		e.in[i].old = make([]Tag, e.lanes.primaries)
	}
	e.words = make([]word, 0, 4)
	e.group.init(l.Ranks)
	if l.MailCells > 0 {
		if e.mail, err = newMail(e, mail); err != nil {
			return nil, e.notMade(err)
		}
	}
	if err := e.openShorts(); err != nil {
		return nil, e.notMade(err)
	}
	if err := e.openStages(); err != nil {
		return nil, e.notMade(err)
	}
	e.farness.watch(e.t, l.Ranks, cfg.Policy)
	e.port.far = &e.farness
	e.unset = cfg.Stop.OnSet(e.wait.bell.Ring)
	return e, nil
}

// notMade gives up what New has made so far.
func (e *Engine) notMade(err error) error {
	if e.cfg.Failed != nil {
		e.cfg.Failed(err)
	}
	return errors.Join(err, e.Close())
}

// newOut returns the sending end of a lane to a peer.
func (e *Engine) newOut(peer int, l *lanes, a *arrivals) outEnd {
	return outEnd{Sender: lane.NewSender(l.shape(), 1), peer: peer, lanes: l, credit: l.credit(peer), granted: l.granted(peer), credits: &a.credits, places: l.places()}
}

func (e *Engine) newWaiter() waiter {
	return waiter{policy: e.cfg.Policy, mem: &e.space, bell: e.space.first.Doorbell(), stop: e.cfg.Stop}
}

// connect makes this rank's endpoint and imports those of the peers.
func (e *Engine) connect(ctx context.Context) error {
	mem, err := e.t.Alloc(e.layout.Bytes())
	if err != nil {
		return err
	}
	e.space.init(mem, e.layout.Bytes())
	if e.own, err = e.t.Create(transport.EndpointConfig{Size: e.layout.Space(), Counted: true}); err != nil {
		return err
	}
	if err := e.own.Ready(ctx); err != nil {
		return err
	}
	if err := e.own.Bind(0, mem); err != nil {
		return err
	}
	x, err := e.own.Export()
	if err != nil {
		return err
	}
	alias := e.cfg.Ways&ByAlias != 0 && e.t.Limits().LateWrites
	e.peers, e.aliases, err = importAll(ctx, e.t, e.own, x, e.rank, e.cfg.Exchange, alias)
	if err == nil && len(e.peers) != e.layout.Ranks {
		err = fmt.Errorf("progress: an exchange among %d ranks gave %d exports: %w", e.layout.Ranks, len(e.peers), transport.ErrHandle)
	}
	if err == nil {
		e.openRoads(e.peers, e.aliases)
	}
	return err
}

// ImportAll exchanges exports of an endpoint that each rank of a group made for
// itself, and imports those of the others. It closes x, the export of this rank's.
// The result is nil at rank me.
func ImportAll(ctx context.Context, t transport.Transport, own transport.Endpoint, x transport.Exported, me int, exchange transport.Exchange) ([]transport.Endpoint, error) {
	peers, _, err := importAll(ctx, t, own, x, me, exchange, false)
	return peers, err
}

// importAll does so, and imports each once more if alias is set: with the export at
// hand that takes nobody's help, and nothing is left to go wrong when it is needed.
func importAll(ctx context.Context, t transport.Transport, own transport.Endpoint, x transport.Exported, me int, exchange transport.Exchange, alias bool) (peers, aliases []transport.Endpoint, err error) {
	all, err := exchange(ctx, x)
	x.Close()
	if err != nil {
		return nil, nil, err
	}
	peers, aliases = make([]transport.Endpoint, len(all)), make([]transport.Endpoint, len(all))
	for r, x := range all {
		if r != me && err == nil {
			if peers[r], err = t.Import(x); err != nil {
				err = fmt.Errorf("endpoint of rank %d: %w", r, err)
			} else if err = peers[r].Ready(ctx); err == nil && peers[r].Size() != own.Size() {
				err = fmt.Errorf("endpoint of rank %d has %d bytes, ours %d: %w", r, peers[r].Size(), own.Size(), transport.ErrHandle)
			}
			if alias && err == nil {
				aliases[r] = importAlias(ctx, t, x)
			}
		}
		x.Close()
	}
	if err != nil {
		for _, p := range append(peers, aliases...) {
			if p != nil {
				p.Destroy()
			}
		}
		return nil, nil, err
	}
	return peers, aliases, nil
}

// Close gives the engine's endpoints and memory up. No call may be under way.
func (e *Engine) Close() error {
	if e.unset != nil {
		e.unset()
	}
	var errs []error
	for _, p := range append(e.peers[:len(e.peers):len(e.peers)], e.aliases...) {
		if p != nil {
			errs = append(errs, p.Destroy())
		}
	}
	e.group.answering.Wait()
	for _, m := range append(e.group.unmade, e.group.multi) {
		errs = append(errs, m.close())
	}
	if e.own != nil {
		errs = append(errs, e.own.Destroy())
	}
	errs = append(errs, e.space.free())
	return errors.Join(errs...)
}

// MessageBytes is the largest payload of one message.
func (e *Engine) MessageBytes() int { return e.layout.MessageBytes() }

// Cells is the number of messages on a lane that can be sent before the first
// is released.
func (e *Engine) Cells() int { return e.lanes.primaries }

// Mail is the engine's mail lanes, nil if the layout has none. They are for other
// goroutines than the engine, at the same time.
func (e *Engine) Mail() *Mail { return e.mail }

// OnIdle has f called whenever a wait of a call lasts and its word has not come,
// before each sleep: what else this rank has to do is not held up by its peers'
// lateness. f must not block. It is to be set before the first call.
func (e *Engine) OnIdle(f func()) { e.wait.idle = f }

// Rank is this rank's number.
func (e *Engine) Rank() int { return e.rank }

// Ranks is the number of ranks.
func (e *Engine) Ranks() int { return e.layout.Ranks }

// Begin starts a call. Its waits end with ctx, and after timeout (0: never),
// counted from the first wait that is not short. All ranks give the same seq
// and signature.
func (e *Engine) Begin(ctx context.Context, timeout time.Duration, seq uint64, signature uint32) {
	e.wait.ctx, e.wait.timeout, e.wait.deadline = ctx, timeout, time.Time{}
	e.seq, e.signature = uint32(seq), signature
	e.group.open = false
	if e.used {
		e.renewParts()
	}
}

// Deadline is when the waits of the current call end by their timeout; zero: never. The
// first that is not short sets it, and this may be one.
func (e *Engine) Deadline() time.Time {
	e.wait.startClock()
	return e.wait.deadline
}

// Stopped returns why the communicator does not go on, or nil. Waits look by themselves;
// it is for what takes long between them.
func (e *Engine) Stopped() error { return e.wait.stop.Err() }

func (e *Engine) renewParts() {
	e.used = false
	for i := range e.out {
		e.out[i].part, e.out[i].salt = 0, 0
		e.in[i].part, e.in[i].salt = 0, 0
	}
}

// Salt adds to the signature of this call's messages to and from a peer what
// only the two of them must agree on. It comes before the first of them.
func (e *Engine) Salt(peer int, out, in uint32) {
	e.used = true
	e.out[peer].salt, e.in[peer].salt = out, in
}

// Send sends data, at most MessageBytes, to a peer as its next message. It
// waits for a free cell, and has read data when it returns. What this rank posted
// before is there when the message is, see [Engine.PutMulti].
func (e *Engine) Send(peer int, data []byte) error {
	if err := e.check(peer, len(data)); err != nil {
		return err
	}
	if e.group.open {
		if err := e.Settle(); err != nil {
			return err
		}
	}
	lane := &e.out[peer]
	step, err := e.begin(lane, messageBytes(len(data)))
	if err != nil {
		return err
	}
	tag := Tag{Seq: e.seq, Signature: e.signature ^ lane.salt, Bytes: uint32(len(data)), Part: partOf(lane.part)}
	tag.put(e.stage)
	putBulletin(e.stage, e.group.bulletin)
	lane.part++
	e.used = true
	return e.send(&lane.outEnd, step, tagBytes, data)
}

// begin begins a message on a lane when there is a cell for it, or none is needed.
func (e *Engine) begin(o *outLane, length uint64) (lane.Step, error) {
	for {
		step, err := e.open(&o.outEnd, length)
		if err != nil || step.Do != lane.WaitCredit {
			return step, err
		}
		words := append(e.words[:0], word{offset: o.credit, want: step.Epoch + 1})
		if e.detour != nil {
			words = append(words, word{own: o.credits, want: step.Epoch + 1})
		}
		e.words = words
		credit, _, err := e.wait.any(words, o.peer)
		if err != nil {
			return step, err
		}
		if err := o.Credit(0, credit); err != nil {
			return step, fmt.Errorf("progress: rank %d: %w", o.peer, err)
		}
	}
}

// check refuses what would leave the lane to a peer, or panic.
func (e *Engine) check(peer, n int) error { return e.checkLane(peer, n, e.lanes.slotBytes-tagBytes) }

func (e *Engine) checkLane(peer, n, most int) error {
	if peer < 0 || peer >= len(e.peers) || peer == e.rank {
		return fmt.Errorf("progress: no lane between rank %d and rank %d of %d: %w", e.rank, peer, len(e.peers), transport.ErrBounds)
	}
	if n < 0 || n > most {
		return fmt.Errorf("progress: a message of %d bytes, where cells hold %d: %w", n, most, transport.ErrBounds)
	}
	return nil
}

// Recv waits for the next message of a peer, of n bytes, and returns its
// payload, aligned to 16 bytes, in place: it is valid until Release.
func (e *Engine) Recv(peer, n int) ([]byte, error) {
	if err := e.check(peer, n); err != nil {
		return nil, err
	}
	in := &e.in[peer]
	length := messageBytes(n)
	in.want = Tag{Seq: e.seq, Signature: e.signature ^ in.salt, Bytes: uint32(n), Part: partOf(in.part)}
	at, by := in.Primary(), lane.Counted
	counter, target := e.lanes.counter(peer, at), in.Base()+length
	var got uint64
	var other []byte // the message, if it came by detour
	var err error
	if e.faulty {
		if got = e.mem.load(counter); got < target {
			got, at, by, other, err = e.find(peer, counter, target)
		}
	} else {
		got, err = e.wait.until(counter, target, peer)
	}
	if err != nil {
		return nil, err
	}
	msg, shift := other, 0
	if by != lane.None {
		e.t.Fence(transport.FenceAcquire)
		p := in.places.Turn(in.Turn())
		if at != in.Primary() {
			var ok bool
			// By the length that was sent: another is a mismatch, and its tag says so.
			if p, ok = in.places.Next(in.Next(), got&lane.MaxLength); !ok {
				return nil, fmt.Errorf("progress: a message from rank %d in a cell without a slot: %w", peer, transport.ErrBounds)
			}
		}
		msg = e.mem.at(e.lanes.slot(peer, p), p.Room)
		shift = int(in.places.Shift(p, in.Next(), length))
	}
	if len(msg) < tagBytes {
		return nil, fmt.Errorf("progress: a message of %d bytes from rank %d: %w", len(msg), peer, transport.ErrBounds)
	}
	if tag := loadTag(msg); tag != in.want || len(msg) < tagBytes+n {
		if by == lane.Counted {
			if tag, err = e.otherTag(peer, e.lanes.slot(peer, in.places.Turn(in.Turn()))); err != nil {
				return nil, err
			}
		}
		return nil, &MismatchError{Peer: peer, Got: tag, Want: in.want}
	}
	e.group.told[peer].Told(getBulletin(msg))
	msg = msg[tagBytes+shift:][:n:n]
	if by == lane.Counted && e.farness.due(in.Next(), n) {
		e.farness.look(peer, in.Next(), msg)
	}
	switch by {
	case lane.Counted:
		if _, err := in.Counted(got, length); err != nil {
			return nil, fmt.Errorf("progress: a cell from rank %d: %w", peer, err)
		}
	case lane.Header:
		e.stats[peer].ByHeader++
	}
	if at != lane.NoCell {
		in.old[in.Turn()] = in.want
		if e.faulty {
			in.places.Take(in.Next(), length, at != in.Primary())
		}
	}
	in.Take(at, by, length)
	if e.faulty {
		e.renew(&in.inEnd, peer)
	}
	in.part++
	e.used = true
	return msg, nil
}

// find waits for the next message of a peer on a transport that may fail.
func (e *Engine) find(peer int, counter, target uint64) (got uint64, at int, by lane.Path, other []byte, err error) {
	in := &e.in[peer]
	words := append(e.words[:0], word{offset: counter, want: target})
	headers := in.Headers()
	for i := range headers {
		words = append(words, word{offset: e.lanes.header(peer, in.Header(i)), want: in.Wanted(), header: true})
	}
	others := &e.arrived[peer]
	if e.detour != nil {
		words = append(words, word{own: &others.count})
	}
	e.words = words
	for {
		if e.detour != nil {
			// Those that came since are news.
			last := &words[len(words)-1]
			last.want = others.count.Load() + 1
			if d, ok := others.take(in.Next()); ok {
				if !in.MayBeIn(d.cell) {
					err = fmt.Errorf("from rank %d: %w: cell %d", peer, ErrDetour, d.cell)
				}
				return 0, d.cell, lane.None, d.data, err
			}
		}
		got, which, err := e.wait.any(words, peer)
		switch {
		case err != nil || which == 0:
			return got, in.Primary(), lane.Counted, nil, err
		case which <= headers: // got is the header
			return got, in.Header(which - 1), lane.Header, nil, nil
		}
	}
}

// messageBytes is what a message with n bytes of payload adds to a counter.
func messageBytes(n int) uint64 { return uint64(roundUp(tagBytes + n)) }

// mismatch says what is wrong if the wait for the word at offset, which is now
// got, is one for a message and the peer sent a shorter one, so that the wait
// would not end. A message is known to be shorter when the counter stands where
// the length in its own tag says that it is complete.
func (e *Engine) mismatch(peer int, offset, got uint64) error {
	in := &e.in[peer]
	if offset != e.lanes.counter(peer, in.Primary()) || got == in.Base() {
		return nil // waits for a credit, or nothing came
	}
	e.t.Fence(transport.FenceAcquire)
	tag := getTag(e.mem.at(e.lanes.slot(peer, in.places.Turn(in.Turn())), tagBytes))
	if tag == in.old[in.Turn()] || int64(tag.Bytes) > int64(e.layout.MessageBytes()) || got-in.Base() != messageBytes(int(tag.Bytes)) {
		return nil
	}
	return &MismatchError{Peer: peer, Got: tag, Want: in.want}
}

// otherTag waits for the tag of a message that is not as expected, in the slot at offset: if
// it is longer, as many bytes of it as were expected can be there before its tag is.
func (e *Engine) otherTag(peer int, offset uint64) (Tag, error) {
	in := &e.in[peer]
	for before := in.old[in.Turn()]; ; {
		var b [tagBytes]byte
		for i := 0; i < tagBytes; i += 8 {
			binary.NativeEndian.PutUint64(b[i:], e.mem.load(offset+uint64(i)))
		}
		// Its two words need not come together.
		tag := getTag(b[:])
		if tag == before && tag != in.old[in.Turn()] {
			return tag, nil
		}
		before = tag
		if err := e.pause(0, peer); err != nil {
			return tag, err
		}
	}
}

// Release gives back the cells of all messages received from a peer. Their
// payloads must not be touched any more.
func (e *Engine) Release(peer int) error {
	if err := e.check(peer, 0); err != nil {
		return err
	}
	in := &e.in[peer]
	if in.freed == in.Next() {
		return nil
	}
	if err := e.raise(&in.credit, peer, e.lanes.credit(e.rank), in.Next()); err != nil {
		return err
	}
	in.freed = in.Next()
	return nil
}

// ReleaseLater is Release if more messages than keep were received since the last. Until
// then the peer has so many cells less. When is decided by the messages alone, so that the
// phases of a call are the same each time.
func (e *Engine) ReleaseLater(peer, keep int) error {
	if err := e.check(peer, 0); err != nil {
		return err
	}
	if in := &e.in[peer]; in.Next()-in.freed <= uint64(max(keep, 0)) {
		return nil
	}
	return e.Release(peer)
}

// Waits returns how the engine has waited so far, its mail not included. No call may
// be under way.
func (e *Engine) Waits() WaitStats { return e.wait.stats }

// Stats returns what the engine did with each peer so far, its mail included. No
// call may be under way, and no mail be sent or received.
func (e *Engine) Stats() []PeerStats {
	all := append([]PeerStats(nil), e.stats...)
	if e.mail != nil {
		for i, s := range e.mail.stats {
			all[i].Add(s)
			all[i].Replaced += uint64(e.mail.out[i].Replaced())
		}
	}
	for i := range e.out {
		all[i].Replaced += uint64(e.out[i].Replaced())
	}
	all[e.rank].Replaced += e.group.replaced + uint64(e.group.board.Replaced())
	return all
}
