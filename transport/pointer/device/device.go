package device

import (
	"errors"
	"fmt"

	"github.com/weft-go/weft/internal/cuda"
)

// ErrUnreachable: a device can't reach the memory of another.
var ErrUnreachable = errors.New("the device does not reach the other's memory")

// ErrShare: memory is of a kind that can't be shared.
var ErrShare = errors.New("this memory can't be shared with other ranks")

// ErrExport: what came from a peer is no export.
var ErrExport = errors.New("malformed export of device memory")

// Device is a rank's use of a GPU.
type Device struct {
	Context *cuda.Context
	UUID    cuda.UUID // the same for all ranks on this GPU
	Name    string    // for people

	granularity int
}

// Count is how many devices this process sees. Without a driver it is an error.
func Count() (int, error) {
	driver, err := cuda.Load()
	if err != nil {
		return 0, err
	}
	return driver.Devices()
}

// Open begins the use of a device of this process, by its number. Its primary
// context stays until [Device.Close].
func Open(ordinal int) (*Device, error) {
	driver, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	dev, err := driver.Device(ordinal)
	if err != nil {
		return nil, err
	}
	for _, need := range []struct {
		attribute cuda.DeviceAttribute
		what      string
	}{
		{cuda.UnifiedAddressing, "unified addressing"},
		{cuda.VirtualMemory, "virtual memory management"},
		{cuda.POSIXHandles, "memory that is shared by descriptors"},
	} {
		if v, err := dev.Attribute(need.attribute); err != nil {
			return nil, err
		} else if v == 0 {
			return nil, fmt.Errorf("device %d: %w: no %s", ordinal, ErrShare, need.what)
		}
	}
	d := &Device{}
	if d.UUID, err = dev.UUID(); err != nil {
		return nil, err
	}
	if d.Name, err = dev.Name(); err != nil {
		return nil, err
	}
	if d.granularity, err = dev.Granularity(cuda.HandlePOSIX); err != nil {
		return nil, err
	}
	if d.granularity <= 0 {
		return nil, fmt.Errorf("device %d: %w: granularity %d", ordinal, ErrShare, d.granularity)
	}
	if d.Context, err = dev.Primary(); err != nil {
		return nil, err
	}
	return d, nil
}

// Close ends the use of the device. All memory must have been released.
func (d *Device) Close() error { return d.Context.Release() }

// RoundUp is how much memory an allocation of so many bytes takes.
func (d *Device) RoundUp(bytes int) int {
	return (bytes + d.granularity - 1) / d.granularity * d.granularity
}

// maxBytes bounds allocations, so that sizes can be rounded up without overflow.
const maxBytes = 1 << 46

// reach returns an error if this device can't reach the memory of another. Of one that
// this process does not see it can't tell: that is for the driver to say.
func (d *Device) reach(other cuda.UUID) error {
	if d.UUID == other {
		return nil
	}
	driver := d.Context.Driver()
	n, err := driver.Devices()
	if err != nil {
		return err
	}
	for i := range n {
		peer, err := driver.Device(i)
		if err != nil {
			return err
		}
		uuid, err := peer.UUID()
		if err != nil {
			return err
		}
		if uuid != other {
			continue
		}
		if can, err := d.Context.Device().CanAccess(peer); err != nil || !can {
			return errors.Join(fmt.Errorf("%w: %s to %s", ErrUnreachable, d.UUID, other), err)
		}
	}
	return nil
}
