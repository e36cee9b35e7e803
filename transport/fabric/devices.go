package fabric

import (
	"errors"
	"fmt"
	"sync"

	"github.com/weft-go/weft/transport"
)

// A deviceTable has the devices that a rank knows: its own and its peers', each
// mapped once, until the transport is closed.
type deviceTable struct {
	mu     sync.Mutex
	byID   map[uint64]*device
	byFile map[fileIdentity]*device
	closed bool
}

func (dt *deviceTable) add(d *device) {
	dt.mu.Lock()
	defer dt.mu.Unlock()
	if dt.byID == nil {
		dt.byID, dt.byFile = map[uint64]*device{}, map[fileIdentity]*device{}
	}
	dt.byID[d.id] = d
}

func (dt *deviceTable) find(id uint64) *device {
	dt.mu.Lock()
	defer dt.mu.Unlock()
	return dt.byID[id]
}

// importDevice returns the device that a handle speaks of and that came with it,
// if the handle is authentic. This rank's own need not come with it.
func (t *Transport) importDevice(x transport.Exported) (*device, handle, error) {
	h, err := parseHandle(x.Handle)
	if err != nil {
		return nil, h, err
	}
	t.mu.Lock()
	own, err := t.device() // so that it is known, should the handle be of this rank
	t.mu.Unlock()
	if err != nil {
		return nil, h, err
	}
	if !t.shared {
		d, ok := x.Ref.(*device)
		if !ok || d == nil || d.id != h.device {
			return nil, h, fmt.Errorf("%w: not of this process", transport.ErrHandle)
		}
		if err := authenticate(x.Handle, d, t.cfg.key); err != nil {
			return nil, h, err
		}
		t.devices.add(d)
		return d, h, nil
	}
	if x.File == nil && h.device == own.id {
		return own, h, authenticate(x.Handle, own, t.cfg.key)
	}
	if x.File == nil {
		return nil, h, fmt.Errorf("%w: no descriptor came with it (limit on open files?)", transport.ErrHandle)
	}
	file, err := identify(x.File)
	if err != nil {
		return nil, h, fmt.Errorf("%w: %w", transport.ErrHandle, err)
	}
	dt := &t.devices
	dt.mu.Lock()
	defer dt.mu.Unlock()
	if dt.closed {
		return nil, h, fmt.Errorf("fabric: %w", transport.ErrClosed)
	}
	d, known := dt.byFile[file]
	if !known {
		if d, err = importShared(x.File); err != nil {
			return nil, h, err
		}
		if own := dt.byID[d.id]; own != nil && own == t.own && own.secret == d.secret {
			err = d.space.close()
			d, known = own, true
			dt.byFile[file] = own
		}
	}
	if err == nil {
		if d.id != h.device || !known && dt.byID[d.id] != nil {
			err = fmt.Errorf("%w: another device came with it", transport.ErrHandle)
		} else {
			err = authenticate(x.Handle, d, t.cfg.key)
		}
	}
	if err != nil {
		if !known {
			err = errors.Join(err, d.space.close())
		}
		return nil, h, err
	}
	dt.byID[d.id], dt.byFile[file] = d, d
	return d, h, nil
}

// close gives up what was mapped of others.
func (dt *deviceTable) close(own *device) error {
	dt.mu.Lock()
	defer dt.mu.Unlock()
	dt.closed = true
	var errs []error
	for _, d := range dt.byID {
		if d != own {
			errs = append(errs, d.space.close())
		}
	}
	clear(dt.byID)
	clear(dt.byFile)
	return errors.Join(errs...)
}
