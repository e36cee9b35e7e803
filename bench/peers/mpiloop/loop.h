#ifndef WEFT_BENCH_LOOP_H
#define WEFT_BENCH_LOOP_H

#include <stddef.h>

/* The collectives, in the order of the harness. */
enum {
	WEFT_ALLREDUCE,
	WEFT_REDUCE,
	WEFT_BROADCAST,
	WEFT_REDUCESCATTER,
	WEFT_ALLGATHER,
	WEFT_ALLTOALL,
	WEFT_GATHER,
	WEFT_SCATTER,
	WEFT_SCAN,
	WEFT_BARRIER
};

/* What the calls of a batch have in common. */
struct weft_loop {
	int coll;
	int root; /* -1: another one in each call */
	int in_place;
	int count; /* elements per rank */
	int elem; /* their size */
	long slots;
	/* Bytes from one slot to the next. In place there are only destinations,
	 * and where source and destination differ in length, a slot is the longer.
	 * MPI has the shorter at its beginning (ReduceScatter) or in the rank's
	 * block (all others). */
	size_t src_stride, dst_stride;
};

/* Makes the communicator that the loop uses; MPI must be up. */
int weft_loop_init(void);

/* Says whether there is a type and an operator of these names (nccl-tests'
 * names), and the collective in place; op is ignored where nothing is reduced. */
int weft_loop_supports(int coll, int in_place, const char *type, const char *op);

/* Makes the calls first, first+1, ... of a batch and stores how long they took
 * on this rank. Returns MPI's error code. */
int weft_loop_run(const struct weft_loop *l, const char *type, const char *op, char *src, char *dst,
		  long first, long calls, double *seconds);

int weft_loop_barrier(void);

#endif
