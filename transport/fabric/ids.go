package fabric

import (
	"fmt"
	"slices"

	"github.com/weft-go/weft/transport"
)

// Ids are names of this rank's own: reserved in ranges, then associated with an
// endpoint each. Id 0 is never reserved.

// ReserveIDs reserves a range of count ids and returns the first. It fails if no
// range is free; ids of another rank have nothing to do with it.
func (t *Transport) ReserveIDs(count int) (base transport.EndpointID, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.memories == nil {
		return 0, fmt.Errorf("fabric: %w", transport.ErrClosed)
	}
	if count < 1 || count > t.cfg.limits.IDs {
		return 0, t.broken(RuleIDState, "reserve ids", transport.ErrBounds).because(fmt.Sprintf("%d of %d", count, t.cfg.limits.IDs))
	}
	run := 0
	from := t.lowestFree
	for id := from; id <= t.cfg.limits.IDs; id++ {
		if id < len(t.reserved) && t.reserved[id] {
			run = 0
			continue
		}
		if run++; run == count {
			base := id - count + 1
			for len(t.reserved) <= id {
				t.reserved = append(t.reserved, false)
			}
			for i := base; i <= id; i++ {
				t.reserved[i] = true
			}
			if base == t.lowestFree {
				t.lowestFree = id + 1
			}
			return transport.EndpointID(base), nil
		}
	}
	return 0, t.broken(RuleIDState, "reserve ids", transport.ErrBounds).because(fmt.Sprintf("no range of %d is free", count))
}

// ReleaseIDs gives a range of reserved ids back. Endpoints must have been
// destroyed under all of them.
func (t *Transport) ReleaseIDs(base transport.EndpointID, count int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	table := t.endpoints()
	for i := 0; i < count || count < 1; i++ {
		id := uint64(base) + uint64(i)
		if count < 1 || id >= uint64(len(t.reserved)) || !t.reserved[id] {
			return t.broken(RuleIDState, "release ids", transport.ErrUnknownEndpoint).because(fmt.Sprintf("%d ids from %d on are not all reserved", count, base))
		}
		if id < uint64(len(table)) && table[id] != nil {
			return t.broken(RuleIDState, "release ids", ErrUndefined).because(fmt.Sprintf("id %d still names an endpoint", id))
		}
	}
	for i := range count {
		t.reserved[int(base)+i] = false
	}
	t.lowestFree = min(t.lowestFree, int(base))
	return nil
}

// associate makes an id name an endpoint. t.mu is held. The ids that this rank has for
// an endpoint are its aliases here, numbered from 0: each gets the least number that no
// other has.
func (t *Transport) associate(id transport.EndpointID, e *endpoint) error {
	if t.closed || t.memories == nil {
		return fmt.Errorf("fabric: %w", transport.ErrClosed)
	}
	old := t.endpoints()
	if int64(id) >= int64(len(t.reserved)) || !t.reserved[id] {
		return t.broken(RuleIDState, "associate", transport.ErrUnknownEndpoint).because(fmt.Sprintf("id %d is not reserved", id))
	}
	if int(id) < len(old) && old[id] != nil {
		return t.broken(RuleIDState, "associate", ErrUndefined).because(fmt.Sprintf("id %d names an endpoint already", id))
	}
	table := make([]*endpoint, max(len(old), int(id)+1))
	copy(table, old)
	for i := 0; i < len(old); i++ {
		if o := old[i]; o != nil && o.blockIs(e) && o.nonce == e.nonce && o.alias == e.alias {
			e.alias++
			i = -1 // from the first again
		}
	}
	e.id = id
	table[id] = e
	t.table.Store(&table)
	return nil
}

// knowsAlias says whether another id of this rank names e, and can be used.
func (t *Transport) knowsAlias(e *endpoint) bool {
	return slices.ContainsFunc(t.endpoints(), func(o *endpoint) bool {
		return o != nil && o != e && o.blockIs(e) && o.nonce == e.nonce && o.ready.Load()
	})
}

// dissociate is the reverse. It says whether the id named e.
func (t *Transport) dissociate(e *endpoint) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.endpoints()
	if int(e.id) >= len(old) || old[e.id] != e {
		return false
	}
	table := make([]*endpoint, len(old))
	copy(table, old)
	table[e.id] = nil
	t.table.Store(&table)
	return true
}

// endpoint returns what an id names.
func (t *Transport) endpoint(id transport.EndpointID) (*endpoint, error) {
	table := t.endpoints()
	if int64(id) >= int64(len(table)) || table[id] == nil {
		if t.isClosed() {
			return nil, fmt.Errorf("fabric: endpoint %d: %w: %w", id, transport.ErrClosed, transport.ErrUnknownEndpoint)
		}
		return nil, t.broken(RuleUnknown, "look up", transport.ErrUnknownEndpoint).because(fmt.Sprintf("id %d", id))
	}
	return table[id], nil
}
