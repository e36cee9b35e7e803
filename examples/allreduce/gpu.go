package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/internal/cuda"
	"github.com/weft-go/weft/kernels"
)

// onGPUs is a world whose gradients are summed on GPUs. They are computed on the CPUs, so that
// they are copied there and back; a program that computes on GPUs has them there, and puts the
// sum on the stream that it computes on.
type onGPUs struct {
	*together
	stream    cuda.Stream
	host      *cuda.HostMemory // from where, and behind that to where, a stream can copy
	gradients *comm.DeviceBuffer
}

// chooseWorld is t on the CPUs or on GPUs, as the option says: cpu, cuda, or auto, which is on
// GPUs if all ranks have one, and no fabric was asked for that is in software. It prints where the
// gradients are summed, and why, and returns the same on all ranks.
func chooseWorld(ctx context.Context, t *together, device string, elements int, stdout io.Writer) (world, error) {
	onCPUs := func(why string) (world, error) {
		fmt.Fprintf(stdout, "gradients are summed on the CPUs: %s\n", why)
		return t, nil
	}
	switch {
	case device == "cpu":
		return onCPUs("-device cpu")
	case device == "auto" && strings.HasPrefix(os.Getenv("WEFT_TRANSPORT"), "fabric"):
		return onCPUs("WEFT_TRANSPORT asks for a fabric in software")
	}
	d, err := t.OpenDevice(ctx)
	if err != nil {
		// All ranks have an error, and the communicator goes on.
		if device == "auto" && t.AsyncErr() == nil {
			if errors.Is(err, comm.ErrNoDevice) {
				return onCPUs("not all ranks have a GPU (weft info says why)")
			}
			return onCPUs(fmt.Sprintf("the GPUs are of no use (%v)", err))
		}
		return nil, fmt.Errorf("-device %s: %w", device, err)
	}
	g := &onGPUs{together: t}
	if g.stream, err = d.Context().NewStream(0); err != nil {
		return nil, err
	}
	if g.host, err = d.Context().AllocHost(2 * 4 * elements); err != nil {
		return nil, err
	}
	if g.gradients, err = comm.AllocDevice(ctx, t.Communicator, 4*elements); err != nil {
		return nil, err
	}
	fmt.Fprintf(stdout, "gradients are computed on the CPUs, copied to GPUs, summed there, and copied back; rank 0 has %s\n", d.Name(0))
	return g, nil
}

// SumGradient waits for the stream: at most for the communicator's timeout, whatever ctx says.
func (g *onGPUs) SumGradient(_ context.Context, buf []float32) error {
	defer g.measure(time.Now())
	data := kernels.Bytes(buf)
	up, down := g.host.Bytes[:len(data)], g.host.Bytes[len(g.host.Bytes)/2:][:len(data)]
	device := cuda.Ptr(g.gradients.Ptr())
	copy(up, data)
	if err := g.stream.CopyHtoD(device, up); err != nil {
		return err
	}
	s := collectives.DeviceSliceOf[float32](uintptr(device), len(buf))
	if err := collectives.AllReduceDevice(g.Communicator, s, s, kernels.Sum, g.stream.Handle()); err != nil {
		return err
	}
	if err := errors.Join(g.stream.CopyDtoH(down, device), g.stream.Synchronize(), g.AsyncErr()); err != nil {
		return err
	}
	copy(data, down)
	return nil
}

// close gives up what there is on the GPU. All ranks call it.
func (g *onGPUs) close() error {
	return errors.Join(g.gradients.Free(), g.host.Free(), g.stream.Destroy())
}
