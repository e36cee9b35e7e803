package cuda

import (
	"fmt"
	"unsafe"
)

// Device is a GPU.
type Device struct {
	driver  *Driver
	ordinal int
	handle  int32
}

// UUID names a device, the same in all processes.
type UUID [16]byte

// String is the form that nvidia-smi prints.
func (u UUID) String() string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// Devices is how many devices this process sees.
func (d *Driver) Devices() (int, error) {
	n := new(int32)
	err := d.call(fnDeviceGetCount, uintptr(unsafe.Pointer(n)))
	return int(*n), err
}

// Device returns the i-th device that this process sees.
func (d *Driver) Device(i int) (*Device, error) {
	if i != int(int32(i)) {
		return nil, invalid("cuDeviceGet", "device %d", i)
	}
	dev := &Device{driver: d, ordinal: i}
	if err := d.call(fnDeviceGet, uintptr(unsafe.Pointer(&dev.handle)), uintptr(i)); err != nil {
		return nil, err
	}
	return dev, nil
}

// Driver is what the device was got from.
func (dev *Device) Driver() *Driver { return dev.driver }

// Ordinal is the device's number in this process.
func (dev *Device) Ordinal() int { return dev.ordinal }

// Name is the device's model.
func (dev *Device) Name() (string, error) {
	name := new([256]byte)
	if err := dev.driver.call(fnDeviceGetName, uintptr(unsafe.Pointer(name)), uintptr(len(name)-1), uintptr(dev.handle)); err != nil {
		return "", err
	}
	return goString(&name[0]), nil
}

// UUID returns the device's own name.
func (dev *Device) UUID() (UUID, error) {
	u := new(UUID)
	err := dev.driver.call(fnDeviceGetUuid, uintptr(unsafe.Pointer(u)), uintptr(dev.handle))
	return *u, err
}

// PCIBusID is the device's place, such as 0000:1a:00.0.
func (dev *Device) PCIBusID() (string, error) {
	id := new([32]byte)
	if err := dev.driver.call(fnDeviceGetPCIBusId, uintptr(unsafe.Pointer(id)), uintptr(len(id)-1), uintptr(dev.handle)); err != nil {
		return "", err
	}
	return goString(&id[0]), nil
}

// TotalBytes is the size of the device's memory.
func (dev *Device) TotalBytes() (int, error) {
	n := new(uintptr)
	err := dev.driver.call(fnDeviceTotalMem, uintptr(unsafe.Pointer(n)), uintptr(dev.handle))
	return int(*n), err
}

// Attribute asks for a property. Drivers refuse those that they don't know with [InvalidValue].
func (dev *Device) Attribute(a DeviceAttribute) (int, error) {
	v := new(int32)
	err := dev.driver.call(fnDeviceGetAttribute, uintptr(unsafe.Pointer(v)), uintptr(a), uintptr(dev.handle))
	return int(*v), err
}

// ComputeCapability is the generation, such as 9 and 0.
func (dev *Device) ComputeCapability() (major, minor int, err error) {
	if major, err = dev.Attribute(ComputeCapabilityMajor); err != nil {
		return 0, 0, err
	}
	minor, err = dev.Attribute(ComputeCapabilityMinor)
	return major, minor, err
}

// CanAccess tells whether the device can be made to reach the peer's memory.
func (dev *Device) CanAccess(peer *Device) (bool, error) {
	v := new(int32)
	err := dev.driver.call(fnDeviceCanAccessPeer, uintptr(unsafe.Pointer(v)), uintptr(dev.handle), uintptr(peer.handle))
	return *v != 0, err
}

// Link asks for a property of the way from the device to the peer.
func (dev *Device) Link(a LinkAttribute, peer *Device) (int, error) {
	v := new(int32)
	err := dev.driver.call(fnDeviceGetP2PAttribute, uintptr(unsafe.Pointer(v)), uintptr(a), uintptr(dev.handle), uintptr(peer.handle))
	return int(*v), err
}
