package fabric

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weft-go/weft/transport"
)

// CliqueType says what the members of a clique can do with each other.
type CliqueType uint8

const (
	// CliqueUnicast: members can import each other's unicast endpoints.
	CliqueUnicast CliqueType = 2
	// CliqueMulticast: members can share a multicast endpoint.
	CliqueMulticast CliqueType = 3
)

func (t CliqueType) String() string {
	switch t {
	case CliqueUnicast:
		return "unicast"
	case CliqueMulticast:
		return "multicast"
	}
	return "unknown clique type"
}

// A Clique is a group of devices that can reach each other.
type Clique struct {
	Type CliqueType
	ID   uint32
}

// Support says what a device can do.
type Support struct {
	Unicast, Multicast bool
	// Counted: endpoints take counted operations if they were created so.
	Counted bool
	// OwnerAccess: an owner can use its own unicast endpoints.
	OwnerAccess bool
	// Reach: the memory behind peers' endpoints can be reached by pointer as well.
	Reach bool
}

// Support says what this rank's device can do.
func (t *Transport) Support() Support { return t.cfg.support }

// Cliques returns the cliques that this rank's device is in.
func (t *Transport) Cliques() []Clique {
	var cs []Clique
	for _, typ := range []CliqueType{CliqueUnicast, CliqueMulticast} {
		if id, ok := t.cfg.cliques[typ]; ok {
			cs = append(cs, Clique{typ, id})
		}
	}
	return cs
}

// AgreeClique finds out, together with all ranks of a group, whether they are in
// one clique of a type. It returns [transport.ErrUnsupported] on every rank if not.
func (t *Transport) AgreeClique(ctx context.Context, typ CliqueType, exchange transport.Exchange) error {
	var mine transport.Exported
	id, ok := t.cfg.cliques[typ]
	mine.Handle[0] = byte(typ)
	if ok {
		mine.Handle[1] = 1
		binary.LittleEndian.PutUint32(mine.Handle[4:], id)
	}
	all, err := exchange(ctx, mine)
	if err != nil {
		return err
	}
	found := false
	for _, x := range all {
		found = found || x.Handle == mine.Handle
	}
	if !found {
		closeAll(all)
		return fmt.Errorf("fabric: an exchange about %v cliques did not give this rank's own: %w", typ, transport.ErrHandle)
	}
	for r, x := range all {
		x.Close()
		switch {
		case err != nil:
		case x.Handle[0] != byte(typ):
			err = fmt.Errorf("fabric: member %d did not ask about %v cliques: %w", r, typ, transport.ErrHandle)
		case x.Handle[1] == 0:
			err = t.broken(RuleClique, "agree on a clique", transport.ErrUnsupported).because(fmt.Sprintf("member %d is in no %v clique", r, typ))
		case x.Handle != all[0].Handle:
			err = t.broken(RuleClique, "agree on a clique", transport.ErrUnsupported).because(
				fmt.Sprintf("member %d is in %v clique %d, member 0 in %d", r, typ, binary.LittleEndian.Uint32(x.Handle[4:]), binary.LittleEndian.Uint32(all[0].Handle[4:])))
		}
	}
	return err
}

// sameClique says whether this rank and a device are in one clique of a type.
func (t *Transport) sameClique(d *device, typ CliqueType) bool {
	mine, ok := t.cfg.cliques[typ]
	theirs, too := d.cliques[typ]
	return ok && too && mine == theirs
}
