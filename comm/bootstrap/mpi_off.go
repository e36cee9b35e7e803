//go:build !mpi

package bootstrap

import "context"

// useMPI says whether MPI brings the ranks together; not in this build.
func useMPI(launch) bool { return false }

func connectMPI(ctx context.Context, cfg Config, l launch) (Channel, error) {
	return connectEnv(ctx, cfg, l)
}

// An mpiSession is a channel's share in MPI. In this build there is none.
type mpiSession struct{}

func (*mpiSession) leave() bool                         { return false }
func (*mpiSession) release(context.Context, bool) error { return nil }
