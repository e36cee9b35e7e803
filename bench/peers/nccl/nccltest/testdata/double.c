// A stand-in for NCCL, for tests on machines that have none. It works on the stand-in for
// the CUDA driver (internal/cuda/cudatest), and asks as NCCL does for a current context.
// With one rank collectives are copies on the stream; with more they do nothing. It writes
// each call down with its arguments, in the file $WEFT_NCCL_DOUBLE_LOG.RANK.
//
// By itself it declares what it needs of nccl.h; with NCCL_HEADER it takes the real one,
// which the compiler then holds every function here against. OLD makes it a version
// without windows, memory and ncclAlltoAll.
#define _GNU_SOURCE
#include <cuda.h>

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef NCCL_HEADER
#include <nccl.h>
#else
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclInvalidArgument = 4, ncclInvalidUsage = 5 } ncclResult_t;
typedef enum { ncclSum } ncclRedOp_t;
typedef enum { ncclInt8 } ncclDataType_t;
typedef CUstream cudaStream_t;
#endif

struct ncclComm { int ranks, rank; FILE *log; };

static __thread char problem[200];
static __thread int grouped;
static __thread const void *sent; // in a group
static __thread void *received;
static __thread size_t groupBytes;

static ncclResult_t refuse(ncclResult_t code, const char *why) {
	snprintf(problem, sizeof problem, "%s", why);
	return code;
}

// driver returns a function of the driver that the program has loaded.
static void *driver(const char *name) {
	void *handle = dlopen(getenv("WEFT_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	void *f = handle ? dlsym(handle, name) : NULL;
	if (!f)
		abort();
	return f;
}

// DRIVER calls one; STRING has cuda.h say which version of it.
#define STRING(name) #name
#define DRIVER_(name, ...) ((__typeof__(&name))driver(STRING(name)))(__VA_ARGS__)
#define DRIVER(name, ...) DRIVER_(name, __VA_ARGS__)

static CUcontext current(void) {
	CUcontext ctx = NULL;
	DRIVER(cuCtxGetCurrent, &ctx);
	return ctx;
}

static void note(ncclComm_t c, const char *format, ...) {
	if (!c->log)
		return;
	va_list args;
	va_start(args, format);
	vfprintf(c->log, format, args);
	va_end(args);
	fputc('\n', c->log);
	fflush(c->log);
}

static size_t sizeOf(ncclDataType_t t) {
	static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return (unsigned)t < sizeof sizes / sizeof *sizes ? sizes[t] : 0;
}

static ncclResult_t copy(ncclComm_t c, const void *src, void *dst, size_t bytes, cudaStream_t s) {
	if (!current())
		return refuse(ncclUnhandledCudaError, "no context is current");
	if (c->ranks > 1 || src == dst)
		return ncclSuccess;
	CUresult r = DRIVER(cuMemcpyDtoDAsync, (CUdeviceptr)dst, (CUdeviceptr)src, bytes, s);
	return r ? refuse(ncclUnhandledCudaError, "the driver refuses the copy") : ncclSuccess;
}

#define CHECK(c, type, op) \
	do { \
		if (sizeOf(type) == 0) \
			return refuse(ncclInvalidArgument, "no such type"); \
		if ((unsigned)(op) > 4) \
			return refuse(ncclInvalidArgument, "no such operator"); \
		if (!(c)) \
			return refuse(ncclInvalidArgument, "no communicator"); \
	} while (0)

ncclResult_t ncclGetVersion(int *version) {
#ifdef OLD
	*version = 21803;
#else
	*version = 22809;
#endif
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code) {
	static __thread char text[40];
	snprintf(text, sizeof text, "text of result %d", (int)code);
	return text;
}

const char *ncclGetLastError(ncclComm_t c) {
	(void)c;
	return problem;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
	for (size_t i = 0; i < sizeof id->internal; i++)
		id->internal[i] = (char)(7 * i + 1);
	return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
	ncclUniqueId want;
	ncclGetUniqueId(&want);
	if (memcmp(&id, &want, sizeof id))
		return refuse(ncclInvalidArgument, "the id is not what was made");
	if (rank < 0 || rank >= ranks)
		return refuse(ncclInvalidArgument, "no such rank");
	if (!current())
		return refuse(ncclUnhandledCudaError, "no context is current");
	struct ncclComm *c = calloc(1, sizeof *c);
	c->ranks = ranks;
	c->rank = rank;
	if (getenv("WEFT_NCCL_DOUBLE_LOG")) {
		char path[4096];
		snprintf(path, sizeof path, "%s.%d", getenv("WEFT_NCCL_DOUBLE_LOG"), rank);
		c->log = fopen(path, "w");
	}
	note(c, "ncclCommInitRank ranks=%d rank=%d", ranks, rank);
	*comm = c;
	return ncclSuccess;
}

static ncclResult_t end(ncclComm_t c, const char *how) {
	note(c, "%s", how);
	if (c->log)
		fclose(c->log);
	free(c);
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) { return end(c, "ncclCommDestroy"); }

ncclResult_t ncclCommAbort(ncclComm_t c) { return end(c, "ncclCommAbort"); }

ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, op);
	note(c, "ncclAllReduce count=%zu type=%d op=%d stream=%d", count, type, op, s != NULL);
	return copy(c, src, dst, count * sizeOf(type), s);
}

ncclResult_t ncclReduce(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, op);
	note(c, "ncclReduce count=%zu type=%d op=%d root=%d stream=%d", count, type, op, root, s != NULL);
	return copy(c, src, dst, count * sizeOf(type), s);
}

ncclResult_t ncclBroadcast(const void *src, void *dst, size_t count, ncclDataType_t type, int root, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, 0);
	note(c, "ncclBroadcast count=%zu type=%d root=%d stream=%d", count, type, root, s != NULL);
	return copy(c, src, dst, count * sizeOf(type), s);
}

ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, op);
	note(c, "ncclReduceScatter count=%zu type=%d op=%d stream=%d", count, type, op, s != NULL);
	return copy(c, src, dst, count * sizeOf(type), s);
}

ncclResult_t ncclAllGather(const void *src, void *dst, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, 0);
	note(c, "ncclAllGather count=%zu type=%d stream=%d", count, type, s != NULL);
	return copy(c, src, dst, count * sizeOf(type), s);
}

// Messages are for groups, as one rank has nobody else.

static __thread ncclComm_t groupComm;
static __thread cudaStream_t groupStream;

ncclResult_t ncclGroupStart(void) {
	grouped++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
	if (grouped == 0)
		return refuse(ncclInvalidUsage, "there is no group");
	grouped--;
	const void *src = sent;
	void *dst = received;
	sent = received = NULL;
	if (src && dst)
		return copy(groupComm, src, dst, groupBytes, groupStream);
	return ncclSuccess;
}

ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, 0);
	note(c, "ncclSend count=%zu type=%d peer=%d stream=%d", count, type, peer, s != NULL);
	if (!grouped)
		return refuse(ncclInvalidUsage, "a message outside groups");
	sent = src;
	groupBytes = count * sizeOf(type);
	groupComm = c;
	groupStream = s;
	return ncclSuccess;
}

ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, 0);
	note(c, "ncclRecv count=%zu type=%d peer=%d stream=%d", count, type, peer, s != NULL);
	if (!grouped)
		return refuse(ncclInvalidUsage, "a message outside groups");
	received = dst;
	return ncclSuccess;
}

#ifndef OLD
ncclResult_t ncclAlltoAll(const void *src, void *dst, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t s) {
	CHECK(c, type, 0);
	note(c, "ncclAlltoAll count=%zu type=%d stream=%d", count, type, s != NULL);
	return copy(c, src, dst, count * sizeOf(type), s);
}

#define MIB2 ((size_t)2 << 20)

// Memory is mapped memory with descriptors, as NCCL's is. The driver has the sizes.
ncclResult_t ncclMemAlloc(void **p, size_t size) {
	if (!current())
		return refuse(ncclUnhandledCudaError, "no context is current");
	int device = *(int *)current(); // the driver's stand-in has its number there
	CUdeviceptr at;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	prop.location = access.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	size = (size + MIB2 - 1) / MIB2 * MIB2;
	if (DRIVER(cuMemCreate, &h, size, &prop, 0) || DRIVER(cuMemAddressReserve, &at, size, 0, 0, 0) ||
	    DRIVER(cuMemMap, at, size, 0, h, 0) || DRIVER(cuMemSetAccess, at, size, &access, 1) || DRIVER(cuMemRelease, h))
		return refuse(ncclUnhandledCudaError, "the driver gives no memory");
	*p = (void *)at;
	return ncclSuccess;
}

ncclResult_t ncclMemFree(void *p) {
	CUdeviceptr base;
	size_t size;
	if (!current())
		return refuse(ncclUnhandledCudaError, "no context is current");
	if (DRIVER(cuMemGetAddressRange, &base, &size, (CUdeviceptr)p) || base != (CUdeviceptr)p ||
	    DRIVER(cuMemUnmap, base, size) || DRIVER(cuMemAddressFree, base, size))
		return refuse(ncclInvalidArgument, "not what ncclMemAlloc gave");
	return ncclSuccess;
}

// A window is asked for with flags; without symmetric memory there is none, and no error.
ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *p, size_t size, ncclWindow_t *w, int flags) {
	note(c, "ncclCommWindowRegister size=%zu flags=%d", size, flags);
	*w = getenv("WEFT_NCCL_DOUBLE_FLAT") ? NULL : (ncclWindow_t)p;
	return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w) {
	note(c, "ncclCommWindowDeregister window=%d", w != NULL);
	return ncclSuccess;
}
#endif
