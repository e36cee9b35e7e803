package main

import (
	"context"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

// A world is the set of ranks that train together.
type world interface {
	Rank() int
	Size() int
	// SumGradient replaces buf by its sum over all ranks.
	SumGradient(ctx context.Context, buf []float32) error
	// Sum does the same for measurements.
	Sum(ctx context.Context, buf []float64) error
	// Spread copies the buffer of rank 0 to all ranks.
	Spread(ctx context.Context, buf []float32) error
}

// alone is a world of one rank, without any communication.
type alone struct{}

func (alone) Rank() int                                    { return 0 }
func (alone) Size() int                                    { return 1 }
func (alone) SumGradient(context.Context, []float32) error { return nil }
func (alone) Sum(context.Context, []float64) error         { return nil }
func (alone) Spread(context.Context, []float32) error      { return nil }

// together is the world of a communicator. It measures the time spent in
// collectives, waiting for slower ranks included.
type together struct {
	*comm.Communicator
	spent time.Duration
}

func (t *together) SumGradient(ctx context.Context, buf []float32) error {
	defer t.measure(time.Now())
	return collectives.AllReduce(ctx, t.Communicator, buf, buf, kernels.Sum)
}

func (t *together) Sum(ctx context.Context, buf []float64) error {
	defer t.measure(time.Now())
	return collectives.AllReduce(ctx, t.Communicator, buf, buf, kernels.Sum)
}

func (t *together) Spread(ctx context.Context, buf []float32) error {
	defer t.measure(time.Now())
	return collectives.Broadcast(ctx, t.Communicator, buf, 0)
}

func (t *together) measure(start time.Time) { t.spent += time.Since(start) }
