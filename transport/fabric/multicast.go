package fabric

import (
	"context"
	"fmt"

	"github.com/weft-go/weft/transport"
)

// ExportDevice returns what peers need to import this rank's device. Every export
// of an endpoint brings its device along; members of a multicast endpoint need
// each other's all the same.
func (t *Transport) ExportDevice() (transport.Exported, error) {
	return t.exportDevice(handle{what: handleDevice})
}

func (t *Transport) exportDevice(h handle) (transport.Exported, error) {
	t.mu.Lock()
	d, err := t.device()
	t.mu.Unlock()
	if err != nil {
		return transport.Exported{}, err
	}
	h.device = d.id
	x := transport.Exported{Handle: h.encode(d, t.cfg.key)}
	return x, d.space.export(&x)
}

// ImportDevice makes a peer's device known, by an export of the device or of one
// of its endpoints.
func (t *Transport) ImportDevice(x transport.Exported) error {
	if _, _, err := t.importDevice(x); err != nil {
		return fmt.Errorf("fabric: import device: %w", err)
	}
	return nil
}

// AddDevice adds this rank's device to a multicast endpoint that it created or
// imported, as the next member. The endpoint is ready when all members have been
// added; membership is for ever.
func (t *Transport) AddDevice(id transport.EndpointID) error {
	e, err := t.endpoint(id)
	if err != nil {
		return err
	}
	return e.addDevice(-1)
}

func (e *endpoint) addDevice(i int) error {
	const op = "add device"
	t := e.t
	if e.kind != kindMulticast {
		return t.broken(RuleEndpointType, op, transport.ErrUnsupported).at(e, 0, 0)
	}
	if !t.cfg.support.Multicast {
		return fmt.Errorf("fabric: add device: %w: no multicast", transport.ErrUnsupported)
	}
	if !t.sameClique(e.dev, CliqueMulticast) {
		return t.broken(RuleClique, op, transport.ErrUnsupported).at(e, 0, 0)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.home != nil || e.destroyed {
		return t.broken(RuleNotMember, op, ErrUndefined).at(e, 0, 0).because("added already, or destroyed")
	}
	t.mu.Lock()
	d, err := t.device()
	if err != nil {
		t.mu.Unlock()
		return err
	}
	at, b, err := t.newBlock(kindReplica, e.size, e.counted)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	if !e.blk.join(i, member{d.id, at, b.word(blockNonce).Load()}) {
		t.giveBlock(at, b)
		return t.broken(RuleNotMember, op, transport.ErrBounds).at(e, 0, 0).because("all members have been added")
	}
	e.home = &home{blk: b, index: at}
	return nil
}

// assemble finds the replicas of a multicast endpoint once all members are there.
func (e *endpoint) assemble() (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.blk.word(blockWanted).Load()
	if e.destroyed || e.blk.word(blockNonce).Load() != e.nonce || n > MaxMembers {
		return false, fmt.Errorf("fabric: multicast endpoint %d: %w", e.id, transport.ErrUnknownEndpoint)
	}
	if e.parts.Load() != nil {
		return true, nil
	}
	if e.blk.word(blockJoined).Load() < n {
		return false, nil
	}
	parts := make([]*part, 0, n)
	err := func() error {
		for i := range int(n) {
			m, ok := e.blk.member(i)
			d := e.t.devices.find(m.device)
			if !ok || d == nil {
				return fmt.Errorf("fabric: multicast endpoint %d: the device of member %d was not imported: %w", e.id, i, transport.ErrUnknownEndpoint)
			}
			b, ok := d.space.block(m.block)
			if !ok || !b.claim(m.nonce) {
				return fmt.Errorf("fabric: multicast endpoint %d: member %d is gone: %w", e.id, i, transport.ErrUnknownEndpoint)
			}
			parts = append(parts, newPart(d, b, m.nonce, e.t.cfg.rank))
		}
		return nil
	}()
	if err != nil {
		for _, p := range parts {
			p.blk.unclaim()
		}
		return false, err
	}
	e.parts.Store(&parts)
	return true, nil
}

// JoinMulticast implements [transport.Transport]. It takes three exchanges: of
// devices and the endpoint, of the news that all devices were added, and of the
// news that all replicas are bound.
func (t *Transport) JoinMulticast(ctx context.Context, cfg transport.EndpointConfig, me, n int, mine transport.Memory, exchange transport.Exchange) (transport.Endpoint, error) {
	j := joining{t: t, me: me, n: n, size: cfg.Size}
	// A member that can't go on still takes part, with an export that nobody can
	// import: the others wait for it.
	var x transport.Exported
	err := j.begin(cfg, mine, &x)
	all, err := j.exchange(ctx, x, exchange, err)
	if err == nil {
		err = j.add(all)
	}
	closeAll(all)
	err = j.tell(ctx, exchange, err)
	if err == nil {
		if err = j.e.Ready(ctx); err == nil {
			err = j.e.Bind(0, mine)
		}
	}
	err = j.tell(ctx, exchange, err)
	if j.e == nil {
		return nil, err
	}
	return j.e, err
}

// joining is the making of a multicast endpoint by one member.
type joining struct {
	t     *Transport
	me, n int
	size  uint64
	e     *endpoint
	alone bool // an exchange has failed
}

// begin checks what can be checked alone, and fills in what this member exports.
func (j *joining) begin(cfg transport.EndpointConfig, mine transport.Memory, x *transport.Exported) error {
	t := j.t
	if j.n < 1 || j.me < 0 || j.me >= j.n {
		return fmt.Errorf("fabric: join a multicast endpoint as member %d of %d: %w", j.me, j.n, transport.ErrBounds)
	}
	m, ok := mine.(*memory)
	if !ok || m == nil || m.t != t {
		return fmt.Errorf("fabric: join a multicast endpoint: %w: memory of another transport", transport.ErrUnsupported)
	}
	if m.size < cfg.Size {
		return fmt.Errorf("fabric: join a multicast endpoint of %d bytes with memory of %d: %w", cfg.Size, m.size, transport.ErrBounds)
	}
	p := Properties{Type: Multicast, Size: cfg.Size, Counted: cfg.Counted, Members: j.n}
	if err := t.checkProperties(p); err != nil {
		return err
	}
	if j.me != 0 {
		var err error
		*x, err = t.exportDevice(handle{what: handleDevice, size: cfg.Size, block: uint64(j.me)})
		return err
	}
	e, err := t.withID(func(id transport.EndpointID) (*endpoint, error) { return t.create(id, p) })
	if err != nil {
		return err
	}
	j.e = e.(*endpoint)
	*x, err = j.e.export()
	return err
}

// exchange takes part in one exchange, whatever err is, and adds to it. After one that
// failed there are no more: each could take as long as that one.
func (j *joining) exchange(ctx context.Context, x transport.Exported, exchange transport.Exchange, err error) ([]transport.Exported, error) {
	if j.alone {
		x.Close()
		return nil, err
	}
	all, xerr := exchange(ctx, x)
	x.Close()
	if xerr != nil {
		j.alone = true
		if err == nil {
			err = xerr
		}
	}
	if err == nil && len(all) != j.n {
		err = fmt.Errorf("fabric: an exchange among %d members gave %d exports: %w", j.n, len(all), transport.ErrHandle)
	}
	return all, err
}

// add imports the devices of all members and the endpoint of the first, and adds
// this rank's device.
func (j *joining) add(all []transport.Exported) error {
	if err := transport.OthersGo(all, j.me); err != nil {
		return err
	}
	members := map[uint64]int{} // by device
	for i, x := range all {
		d, h, err := j.t.importDevice(x)
		if err == nil {
			if first, twice := members[d.id]; twice {
				err = fmt.Errorf("%w: the device of member %d, once more", transport.ErrHandle, first)
			} else {
				members[d.id] = i
			}
		}
		if err == nil && (i == 0 && h.what != handleMulticast || i != 0 && (h.what != handleDevice || h.block != uint64(i))) {
			err = fmt.Errorf("%w: it joins as another member", transport.ErrHandle)
		}
		if err == nil && h.size != j.size {
			err = fmt.Errorf("%w: %d bytes, not %d", transport.ErrHandle, h.size, j.size)
		}
		if err != nil {
			return fmt.Errorf("fabric: multicast endpoint: member %d: %w", i, err)
		}
	}
	if j.me != 0 {
		e, err := j.t.withID(func(id transport.EndpointID) (*endpoint, error) { return j.t.importAs(id, all[0]) })
		if err != nil {
			return err
		}
		j.e = e.(*endpoint)
	}
	return j.e.addDevice(j.me)
}

// tell exchanges the news of how far all have come. It fails if one can't go on.
func (j *joining) tell(ctx context.Context, exchange transport.Exchange, err error) error {
	var x transport.Exported
	if err == nil {
		x, err = j.t.exportDevice(handle{what: handleJoined, size: j.size})
	}
	all, err := j.exchange(ctx, x, exchange, err)
	if err == nil {
		err = transport.OthersGo(all, j.me)
	}
	for i, x := range all {
		if err == nil {
			var h handle
			if _, h, err = j.t.importDevice(x); err == nil && h.what != handleJoined {
				err = transport.ErrHandle
			}
			if err != nil {
				err = fmt.Errorf("fabric: multicast endpoint: member %d: %w", i, err)
			}
		}
	}
	closeAll(all)
	return err
}

func closeAll(all []transport.Exported) {
	for _, x := range all {
		x.Close()
	}
}
