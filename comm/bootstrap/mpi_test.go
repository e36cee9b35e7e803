//go:build mpi && linux

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/emer/empi/mpi"
)

// Programs that need MPI themselves.
func init() {
	builtWithMPI = true
	programs["own-init"] = func(ctx context.Context) error {
		mpi.Init()
		if err := exchange(ctx, 2); err != nil {
			return err
		}
		world, err := mpi.NewComm(nil) // MPI must be as it was
		if err != nil {
			return err
		}
		sum := []int64{1}
		if err := world.AllReduceI64(mpi.OpSum, sum, nil); err != nil || sum[0] != int64(mpi.WorldSize()) {
			return fmt.Errorf("sum is %d, error %v", sum[0], err)
		}
		mpi.Finalize()
		return nil
	}
	programs["own-finalize"] = func(ctx context.Context) error {
		mpi.Init()
		mpi.Finalize()
		return exchange(ctx, 1)
	}
	programs["nodes"] = func(ctx context.Context) error {
		os.Setenv("WEFT_NODE", os.Getenv("OMPI_COMM_WORLD_RANK"))
		return exchange(ctx, 1)
	}
	programs["two"] = func(ctx context.Context) error {
		c, err := Connect(ctx, Config{})
		if err != nil {
			return err
		}
		if err := exchange(ctx, 2); err != nil {
			return err
		}
		return c.Close(ctx)
	}
	programs["crossed"] = func(ctx context.Context) error {
		a, err := Connect(ctx, Config{})
		if err != nil {
			return err
		}
		b, err := Connect(ctx, Config{})
		if err != nil {
			return err
		}
		if a.Rank() == 0 {
			a, b = b, a
		}
		return errors.Join(a.Close(ctx), b.Close(ctx))
	}
	programs["other-size"] = func(ctx context.Context) error {
		os.Setenv("OMPI_COMM_WORLD_SIZE", "5")
		_, err := Connect(ctx, Config{})
		var le *LaunchError
		if errors.As(err, &le) && strings.Contains(le.Problem, "MPI says rank") {
			return err
		}
		return nil
	}
	programs["die"] = func(ctx context.Context) error {
		c, err := Connect(ctx, Config{})
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return c.Close(ctx)
	}
}
