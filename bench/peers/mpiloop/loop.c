//go:build mpi

/* The timed loop around an MPI library's collectives. It is part of the
 * programs under bench, through cgo, and of mpi_perf.c. */

#include "loop.h"

#include <mpi.h>
#include <string.h>
#include <time.h>

static MPI_Comm comm = MPI_COMM_NULL;
static int rank, size;

int weft_loop_init(void)
{
	int err;
	if (comm != MPI_COMM_NULL)
		return MPI_SUCCESS;
	if ((err = MPI_Comm_dup(MPI_COMM_WORLD, &comm)) != MPI_SUCCESS)
		return err;
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(comm, &rank);
	return MPI_Comm_size(comm, &size);
}

/* Types that MPI does not have are moved as integers of their size. */
static MPI_Datatype type_of(const char *name, int moved)
{
	static const struct {
		const char *name;
		MPI_Datatype type;
	} types[] = {
		{"int8", MPI_INT8_T},     {"uint8", MPI_UINT8_T},   {"int16", MPI_INT16_T},
		{"uint16", MPI_UINT16_T}, {"int32", MPI_INT32_T},   {"uint32", MPI_UINT32_T},
		{"int64", MPI_INT64_T},   {"uint64", MPI_UINT64_T}, {"float", MPI_FLOAT},
		{"double", MPI_DOUBLE},
	};
	size_t i;
	for (i = 0; i < sizeof types / sizeof types[0]; i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].type;
	if (moved && (strcmp(name, "half") == 0 || strcmp(name, "bfloat16") == 0))
		return MPI_UINT16_T;
	return MPI_DATATYPE_NULL;
}

static MPI_Op op_of(const char *name)
{
	if (strcmp(name, "sum") == 0)
		return MPI_SUM;
	if (strcmp(name, "prod") == 0)
		return MPI_PROD;
	if (strcmp(name, "min") == 0)
		return MPI_MIN;
	if (strcmp(name, "max") == 0)
		return MPI_MAX;
	return MPI_OP_NULL;
}

static int reduces(int coll)
{
	return coll == WEFT_ALLREDUCE || coll == WEFT_REDUCE || coll == WEFT_REDUCESCATTER || coll == WEFT_SCAN;
}

int weft_loop_supports(int coll, int in_place, const char *type, const char *op)
{
	if (coll == WEFT_BARRIER)
		return 1;
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
	/* MPICH 4.0.2 dereferences MPI_IN_PLACE there, at 32 KiB with a root
	 * other than 0. */
	if (coll == WEFT_REDUCE && in_place)
		return 0;
#endif
	(void)in_place;
	return type_of(type, !reduces(coll)) != MPI_DATATYPE_NULL && (!reduces(coll) || op_of(op) != MPI_OP_NULL);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

int weft_loop_run(const struct weft_loop *l, const char *type, const char *op_name, char *src, char *dst,
		  long first, long calls, double *seconds)
{
	MPI_Datatype t = type_of(type, !reduces(l->coll));
	MPI_Op op = op_of(op_name);
	long slot = first % l->slots, i;
	int root = l->root >= 0 ? l->root : (int)(first % size);
	int err = MPI_SUCCESS;
	double begin = now();

	for (i = 0; i < calls && err == MPI_SUCCESS; i++) {
		char *from = src + slot * l->src_stride, *to = dst + slot * l->dst_stride;
		char *block = to + (size_t)rank * l->count * l->elem; /* in place */
		if (l->in_place)
			from = MPI_IN_PLACE;
		switch (l->coll) {
		case WEFT_ALLREDUCE:
			err = MPI_Allreduce(from, to, l->count, t, op, comm);
			break;
		case WEFT_REDUCE:
			if (l->in_place && rank != root)
				err = MPI_Reduce(to, NULL, l->count, t, op, root, comm);
			else
				err = MPI_Reduce(from, to, l->count, t, op, root, comm);
			break;
		case WEFT_BROADCAST:
			err = MPI_Bcast(to, l->count, t, root, comm);
			break;
		case WEFT_REDUCESCATTER:
			err = MPI_Reduce_scatter_block(from, to, l->count, t, op, comm);
			break;
		case WEFT_ALLGATHER:
			err = MPI_Allgather(from, l->count, t, to, l->count, t, comm);
			break;
		case WEFT_ALLTOALL:
			err = MPI_Alltoall(from, l->count, t, to, l->count, t, comm);
			break;
		case WEFT_GATHER:
			err = MPI_Gather(l->in_place && rank != root ? block : from, l->count, t, to, l->count, t, root, comm);
			break;
		case WEFT_SCATTER:
			if (!l->in_place)
				err = MPI_Scatter(from, l->count, t, to, l->count, t, root, comm);
			else
				err = MPI_Scatter(to, l->count, t, rank == root ? MPI_IN_PLACE : block, l->count, t, root, comm);
			break;
		case WEFT_SCAN:
			err = MPI_Scan(from, to, l->count, t, op, comm);
			break;
		case WEFT_BARRIER:
			err = MPI_Barrier(comm);
			break;
		}
		if (++slot == l->slots)
			slot = 0;
		if (l->root < 0 && ++root == size)
			root = 0;
	}
	*seconds = now() - begin;
	return err;
}

int weft_loop_barrier(void)
{
	return MPI_Barrier(comm);
}
