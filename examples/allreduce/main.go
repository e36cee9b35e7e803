// Command allreduce trains a small neural network on several ranks: each has a
// share of the images, and the gradients are summed with AllReduce. It then
// checks that all ranks hold the same parameters, and that these are those of
// the same training on one rank. The digest that it prints is of the bits of the
// parameters: the same for the same seed and number of ranks, by whatever transport
// they talk and whatever that loses on the way.
//
// It runs under mpirun (built with -tags mpi), under "weft run", and without
// any launcher, when its ranks are goroutines:
//
//	go run ./examples/allreduce
//
// Where all ranks have a GPU, or several share one, the gradients are summed on GPUs, with the
// same bits; -device cpu or -device cuda decide otherwise. They are computed on the CPUs all the
// same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
)

func main() {
	var opt options
	flag.IntVar(&opt.ranks, "ranks", 4, "number of `ranks` if no launcher started this program")
	flag.IntVar(&opt.epochs, "epochs", 30, "number of passes over the training images")
	flag.Float64Var(&opt.accuracy, "accuracy", 0.95, "fail if less than this `share` of the test images is recognised")
	flag.Uint64Var(&opt.seed, "seed", 1, "seed of all random choices")
	flag.StringVar(&opt.device, "device", "auto", "`where` gradients are summed: cpu, cuda (GPUs), or auto, GPUs if there are any")
	flag.Parse()
	if err := opt.check(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		flag.Usage()
		os.Exit(2)
	}
	if err := launch(context.Background(), opt, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(1)
	}
}

// check says what is wrong with the command line.
func (o options) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.ranks < 1:
		return fmt.Errorf("-ranks %d: must be at least 1", o.ranks)
	case o.epochs < 1:
		return fmt.Errorf("-epochs %d: must be at least 1", o.epochs)
	case !slices.Contains([]string{"auto", "cpu", "cuda"}, o.device):
		return fmt.Errorf("-device %q: must be auto, cpu or cuda", o.device)
	}
	return nil
}

// launch runs this process's rank, or all of them if nobody started others.
func launch(ctx context.Context, opt options, stdout io.Writer) error {
	c, err := comm.Init(ctx)
	if err != nil {
		return err
	}
	if c.Source() != "single" { // a launcher started this process
		return runRank(ctx, c, opt, stdout)
	}
	if err := c.Close(); err != nil {
		return err
	}
	return runLocal(ctx, opt, stdout)
}

// runLocal runs all ranks as goroutines.
func runLocal(ctx context.Context, opt options, stdout io.Writer) error {
	cs, err := comm.Local(opt.ranks)
	if err != nil {
		return err
	}
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { errs[i] = runRank(ctx, c, opt, stdout) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// runRank runs one rank to its end. If it fails, all ranks do.
func runRank(ctx context.Context, c *comm.Communicator, opt options, stdout io.Writer) error {
	rank := c.Rank()
	if rank != 0 {
		stdout = io.Discard
	}
	err := run(ctx, c, opt, stdout)
	if err != nil {
		c.Abort(err)
	}
	if err = errors.Join(err, c.Close()); err != nil {
		err = fmt.Errorf("rank %d: %w", rank, err)
	}
	return err
}

// run trains, checks and reports.
func run(ctx context.Context, c *comm.Communicator, opt options, stdout io.Writer) error {
	images, err := loadDigits()
	if err != nil {
		return err
	}
	images, tests := split(images, opt.seed)
	fmt.Fprintf(stdout, "%d ranks, %d images to train and %d to test with, %d parameters\n",
		c.Size(), len(images), len(tests), numParams)

	t := &together{Communicator: c}
	w, err := chooseWorld(ctx, t, opt.device, numParams+2, stdout)
	if err != nil {
		return err
	}
	start := time.Now()
	var last epoch
	p, err := train(ctx, w, images, tests, opt, func(e epoch) {
		last = e
		if e.number%5 == 0 || e.number == opt.epochs {
			fmt.Fprintf(stdout, "epoch %2d  train loss %.4f  test loss %.4f  test accuracy %.4f\n",
				e.number, e.trainLoss, e.testLoss, e.accuracy)
		}
	})
	if err != nil {
		return err
	}
	seconds := []float64{time.Since(start).Seconds(), t.spent.Seconds()}
	if err := collectives.AllReduce(ctx, c, seconds, seconds, kernels.Max); err != nil {
		return err
	}
	if g, ok := w.(*onGPUs); ok {
		if err := g.close(); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "training took %.3f s, at most %.3f s of it in communication\n", seconds[0], seconds[1])

	if err := checkIdentical(ctx, c, p); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "parameters are the same bits on all ranks\n")
	diff, err := checkAlone(ctx, c, p, images, tests, opt)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "parameters differ by at most %.2g from those of one rank alone (tolerance %g)\n", diff, tolerance)
	if err := checkAccuracy(last.accuracy, opt.accuracy); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "result accuracy=%.4f loss=%.4f ranks=%d comm_seconds=%.3f digest=%016x\n",
		last.accuracy, last.testLoss, c.Size(), seconds[1], p.hash())
	return nil
}
