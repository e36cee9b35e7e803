// A stand-in for the CUDA driver, for tests on machines that have none. Memory of
// its devices is memory of the host, which other processes can map like a
// device's; copies are done at once, or when a graph is launched that they were
// captured in; kernels are not run. It refuses what a driver would refuse: calls
// without a current context, addresses that a device does not reach. It writes down
// each call with its arguments, and fails on demand.
//
// It is compiled with the real cuda.h, so the compiler knows how arguments and
// structures are laid out, whatever the caller believes.
#define _GNU_SOURCE
#include <cuda.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);

#define MAX_DEVICES 8
#define MAX_RANGES 4096
#define GRANULARITY ((size_t)2 << 20)

struct context { int device; int retained; };
struct copy { CUdeviceptr dst, src; size_t n; };
struct graph { int copies; struct copy *copy; };
struct stream { CUcontext ctx; int capturing; struct graph *graph; };
struct event { CUcontext ctx; int recorded; };
struct function { char name[64]; };
struct memory { int fd; size_t size; int device; int types; int refs; };

enum kind { FREE, ALLOCATED, POOLED, MANAGED, IPC, RESERVED, MAPPED, HOST };

// A range of addresses that the driver knows.
struct range {
	enum kind kind;
	uintptr_t base;
	size_t size;
	int device;
	int fd;            // of allocated memory, for IPC
	unsigned reach;    // of mapped memory: the devices that have access
	struct memory *memory;
	uint64_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *calls;
static size_t callBytes, callRoom;
static char failing[64];
static int failCode;
static struct context contexts[MAX_DEVICES];
static struct range ranges[MAX_RANGES];
static unsigned peers[MAX_DEVICES]; // the devices whose memory each may use
static uint64_t nextID = 1;
static __thread CUcontext stack[16];
static __thread int depth;

static int devices(void) {
	const char *s = getenv("WEFT_DOUBLE_DEVICES");
	int n = s ? atoi(s) : 2;
	return n > MAX_DEVICES ? MAX_DEVICES : n;
}

static void note(const char *format, ...) {
	va_list args;
	pthread_mutex_lock(&lock);
	if (callRoom - callBytes < 4096) {
		callRoom = callRoom * 2 + 8192;
		calls = realloc(calls, callRoom);
	}
	va_start(args, format);
	callBytes += vsnprintf(calls + callBytes, 4096, format, args);
	va_end(args);
	calls[callBytes++] = '\n';
	pthread_mutex_unlock(&lock);
}

// What tests call: weftDoubleTake copies what was written down and forgets it,
// weftDoubleFail has the next call of a function return a code, and
// weftDoubleNothing is for measuring what a call costs.
size_t weftDoubleTake(char *to, size_t room) {
	pthread_mutex_lock(&lock);
	size_t n = callBytes < room ? callBytes : room;
	if (n)
		memcpy(to, calls, n);
	callBytes = 0;
	pthread_mutex_unlock(&lock);
	return n;
}

void weftDoubleFail(const char *name, int code) {
	pthread_mutex_lock(&lock);
	snprintf(failing, sizeof failing, "%s", name);
	failCode = code;
	pthread_mutex_unlock(&lock);
}

int weftDoubleNothing(void) { return 0; }

static int quiet = -1;

static int injected(const char *name) {
	int code = 0;
	pthread_mutex_lock(&lock);
	if (quiet < 0)
		quiet = getenv("WEFT_DOUBLE_QUIET") != NULL;
	if (strcmp(failing, name) == 0) {
		code = failCode;
		failing[0] = 0;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

// ENTER writes a call down and fails if it is to.
#define ENTER(...) \
	do { \
		int code_ = injected(__func__); \
		if (!quiet) \
			note(__VA_ARGS__); \
		if (code_) \
			return code_; \
	} while (0)

// CURRENT declares the current context, which there must be.
#define CURRENT() \
	if (depth == 0 || stack[depth - 1] == NULL) \
		return CUDA_ERROR_INVALID_CONTEXT; \
	struct context *current = (struct context *)stack[depth - 1]; \
	(void)current

#define CHECK(condition, code) \
	do { \
		if (!(condition)) \
			return code; \
	} while (0)

static int badDevice(int d) { return d < 0 || d >= devices(); }

// find returns the range of the given kind, or of any but RESERVED, that an address lies in.
static struct range *find(uintptr_t p, enum kind kind) {
	struct range *found = NULL;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_RANGES && found == NULL; i++) {
		struct range *r = &ranges[i];
		if (r->kind == FREE || (kind == FREE ? r->kind == RESERVED : r->kind != kind))
			continue;
		if (p >= r->base && p - r->base < r->size)
			found = r;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

// forget takes a range out of the table and returns what it was. Only then may
// its addresses be given back, as somebody else may get them.
static struct range forget(struct range *r) {
	pthread_mutex_lock(&lock);
	struct range was = *r;
	r->kind = FREE;
	pthread_mutex_unlock(&lock);
	return was;
}

static struct range *add(enum kind kind, void *base, size_t size, int device) {
	pthread_mutex_lock(&lock);
	struct range *r = NULL;
	for (int i = 0; i < MAX_RANGES && r == NULL; i++)
		if (ranges[i].kind == FREE)
			r = &ranges[i];
	if (r)
		*r = (struct range){kind, (uintptr_t)base, size, device, -1, 0, NULL, nextID++};
	pthread_mutex_unlock(&lock);
	return r;
}

// reach tells whether a device may use memory.
static int reach(int device, CUdeviceptr p, size_t n) {
	struct range *r = find(p, FREE);
	if (r == NULL || n > r->base + r->size - p)
		return 0;
	switch (r->kind) {
	case MAPPED: return r->reach >> device & 1;
	case HOST: return 1;
	default: return r->device == device || (peers[device] >> r->device & 1);
	}
}

// Initialisation.

CUresult cuInit(unsigned flags) {
	ENTER("cuInit flags=%u", flags);
	return devices() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) {
	ENTER("cuDriverGetVersion");
	*version = CUDA_VERSION;
	return 0;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
	static __thread char buffer[64];
	snprintf(buffer, sizeof buffer, "text of code %d", (int)code);
	*text = code == 12345 ? NULL : buffer;
	return 0;
}

// Devices.

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
	ENTER("cuDeviceGet ordinal=%d", ordinal);
	CHECK(!badDevice(ordinal), CUDA_ERROR_INVALID_DEVICE);
	*device = ordinal;
	return 0;
}

CUresult cuDeviceGetCount(int *n) {
	ENTER("cuDeviceGetCount");
	*n = devices();
	return 0;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice d) {
	ENTER("cuDeviceGetName room=%d device=%d", room, d);
	snprintf(name, room, "Double %d", d);
	return 0;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d) {
	ENTER("cuDeviceGetUuid device=%d", d);
	for (int i = 0; i < 16; i++)
		uuid->bytes[i] = (char)(16 * d + i);
	return 0;
}

CUresult cuDeviceGetPCIBusId(char *id, int room, CUdevice d) {
	ENTER("cuDeviceGetPCIBusId room=%d device=%d", room, d);
	snprintf(id, room, "0000:%02x:00.0", d + 1);
	return 0;
}

CUresult cuDeviceTotalMem(size_t *n, CUdevice d) {
	ENTER("cuDeviceTotalMem device=%d", d);
	*n = (size_t)80 << 30;
	return 0;
}

CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
	ENTER("cuDeviceGetAttribute attribute=%d device=%d", a, d);
	CHECK(!badDevice(d), CUDA_ERROR_INVALID_DEVICE);
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *v = 0; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = 132; break;
	case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: *v = 4; break;
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *v = 1; break;
	default:
		if (a > 150)
			return CUDA_ERROR_INVALID_VALUE;
		*v = 0;
	}
	return 0;
}

// Where WEFT_DOUBLE_APART is set, no device reaches another.
static int linked(CUdevice a, CUdevice b) { return a != b && getenv("WEFT_DOUBLE_APART") == NULL; }

CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer) {
	ENTER("cuDeviceCanAccessPeer device=%d peer=%d", d, peer);
	CHECK(!badDevice(d) && !badDevice(peer), CUDA_ERROR_INVALID_DEVICE);
	*can = linked(d, peer);
	return 0;
}

CUresult cuDeviceGetP2PAttribute(int *v, CUdevice_P2PAttribute a, CUdevice d, CUdevice peer) {
	ENTER("cuDeviceGetP2PAttribute attribute=%d device=%d peer=%d", a, d, peer);
	*v = linked(d, peer) && a != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
	return 0;
}

// Contexts.

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice d) {
	ENTER("cuDevicePrimaryCtxRetain device=%d", d);
	CHECK(!badDevice(d), CUDA_ERROR_INVALID_DEVICE);
	contexts[d].device = d;
	contexts[d].retained++;
	*ctx = (CUcontext)&contexts[d];
	return 0;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d) {
	ENTER("cuDevicePrimaryCtxRelease device=%d", d);
	CHECK(!badDevice(d) && contexts[d].retained > 0, CUDA_ERROR_INVALID_CONTEXT);
	contexts[d].retained--;
	return 0;
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
	CHECK(ctx && ((struct context *)ctx)->retained > 0 && depth < 16, CUDA_ERROR_INVALID_CONTEXT);
	stack[depth++] = ctx;
	return 0;
}

CUresult cuCtxPopCurrent(CUcontext *ctx) {
	CHECK(depth > 0, CUDA_ERROR_INVALID_CONTEXT);
	depth--;
	if (ctx)
		*ctx = stack[depth];
	return 0;
}

CUresult cuCtxGetCurrent(CUcontext *ctx) {
	*ctx = depth ? stack[depth - 1] : NULL;
	return 0;
}

CUresult cuCtxSynchronize(void) {
	ENTER("cuCtxSynchronize");
	CURRENT();
	return 0;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
	CURRENT();
	int d = ((struct context *)peer)->device;
	ENTER("cuCtxEnablePeerAccess context=%d peer=%d flags=%u", current->device, d, flags);
	CHECK(linked(current->device, d), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	CHECK(!(peers[current->device] >> d & 1), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	peers[current->device] |= 1u << d;
	return 0;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	ENTER("cuCtxGetStreamPriorityRange");
	CURRENT();
	*least = 0;
	*greatest = -5;
	return 0;
}

// Streams. 0 is the default stream of the current context.

#define STREAM(s) \
	CURRENT(); \
	CHECK(s == NULL || ((struct stream *)s)->ctx == (CUcontext)current, CUDA_ERROR_INVALID_HANDLE)

CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority) {
	ENTER("cuStreamCreateWithPriority flags=%u priority=%d", flags, priority);
	CURRENT();
	struct stream *n = calloc(1, sizeof *n);
	n->ctx = (CUcontext)current;
	*s = (CUstream)n;
	return 0;
}

CUresult cuStreamDestroy(CUstream s) {
	ENTER("cuStreamDestroy");
	STREAM(s);
	free(s);
	return 0;
}

CUresult cuStreamSynchronize(CUstream s) {
	ENTER("cuStreamSynchronize");
	STREAM(s);
	return 0;
}

CUresult cuStreamQuery(CUstream s) {
	ENTER("cuStreamQuery");
	STREAM(s);
	return 0;
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
	ENTER("cuStreamWaitEvent event=%d flags=%u", e != NULL, flags);
	STREAM(s);
	return 0;
}

CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags) {
	ENTER("cuStreamWriteValue32 value=%#x flags=%u", v, flags);
	STREAM(s);
	CHECK(reach(current->device, p, 4), CUDA_ERROR_INVALID_VALUE);
	memcpy((void *)p, &v, 4);
	return 0;
}

CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags) {
	ENTER("cuStreamWriteValue64 value=%#llx flags=%u", (unsigned long long)v, flags);
	STREAM(s);
	CHECK(reach(current->device, p, 8), CUDA_ERROR_INVALID_VALUE);
	memcpy((void *)p, &v, 8);
	return 0;
}

CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags) {
	ENTER("cuStreamWaitValue32 value=%#x flags=%u", v, flags);
	STREAM(s);
	return reach(current->device, p, 4) ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags) {
	ENTER("cuStreamWaitValue64 value=%#llx flags=%u", (unsigned long long)v, flags);
	STREAM(s);
	return reach(current->device, p, 8) ? 0 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetCtx(CUstream s, CUcontext *ctx) {
	ENTER("cuStreamGetCtx");
	CURRENT();
	*ctx = s ? ((struct stream *)s)->ctx : (CUcontext)current;
	return 0;
}

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
	ENTER("cuStreamBeginCapture mode=%d", mode);
	STREAM(s);
	CHECK(s && !((struct stream *)s)->capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	((struct stream *)s)->capturing = 1;
	((struct stream *)s)->graph = calloc(1, sizeof(struct graph));
	return 0;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
	ENTER("cuStreamEndCapture");
	STREAM(s);
	CHECK(s && ((struct stream *)s)->capturing, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	((struct stream *)s)->capturing = 0;
	*g = (CUgraph)((struct stream *)s)->graph;
	return 0;
}

CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
	ENTER("cuStreamIsCapturing");
	STREAM(s);
	*status = s && ((struct stream *)s)->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return 0;
}

// Events.

CUresult cuEventCreate(CUevent *e, unsigned flags) {
	ENTER("cuEventCreate flags=%u", flags);
	CURRENT();
	struct event *n = calloc(1, sizeof *n);
	n->ctx = (CUcontext)current;
	*e = (CUevent)n;
	return 0;
}

CUresult cuEventDestroy(CUevent e) {
	ENTER("cuEventDestroy");
	CURRENT();
	free(e);
	return 0;
}

CUresult cuEventRecord(CUevent e, CUstream s) {
	ENTER("cuEventRecord");
	STREAM(s);
	CHECK(((struct event *)e)->ctx == (CUcontext)current, CUDA_ERROR_INVALID_HANDLE);
	((struct event *)e)->recorded = 1;
	return 0;
}

CUresult cuEventQuery(CUevent e) {
	ENTER("cuEventQuery");
	CURRENT();
	return ((struct event *)e)->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent e) {
	ENTER("cuEventSynchronize");
	CURRENT();
	return 0;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
	ENTER("cuEventElapsedTime");
	CURRENT();
	CHECK(start != end && ((struct event *)start)->recorded, CUDA_ERROR_INVALID_HANDLE);
	const char *passed = getenv("WEFT_DOUBLE_MS");
	*ms = passed ? atof(passed) : 1.5f;
	return 0;
}

// Memory.

static int newMemory(size_t size, int device, int types) {
	char name[64];
	snprintf(name, sizeof name, "weft-double-%d-%d", device, types);
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, size)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
	ENTER("cuMemAlloc bytes=%zu", n);
	CURRENT();
	CHECK(n <= (size_t)80 << 30, CUDA_ERROR_OUT_OF_MEMORY);
	int fd = newMemory(n, current->device, 0);
	void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
	add(ALLOCATED, at, n, current->device)->fd = fd;
	*p = (CUdeviceptr)at;
	return 0;
}

// Memory that can't be shared.
static CUresult allocateAlone(enum kind kind, int device, CUdeviceptr *p, size_t n) {
	int fd = newMemory(n, device, 0);
	void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
	add(kind, at, n, device)->fd = fd;
	*p = (CUdeviceptr)at;
	return 0;
}

CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) {
	ENTER("cuMemAllocAsync bytes=%zu", n);
	STREAM(s);
	return allocateAlone(POOLED, current->device, p, n);
}

CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned flags) {
	ENTER("cuMemAllocManaged bytes=%zu flags=%u", n, flags);
	CURRENT();
	return allocateAlone(MANAGED, current->device, p, n);
}

CUresult cuMemFree(CUdeviceptr p) {
	ENTER("cuMemFree");
	CURRENT();
	struct range *r = find(p, FREE);
	CHECK(r && r->base == p && (r->kind == ALLOCATED || r->kind == POOLED || r->kind == MANAGED), CUDA_ERROR_INVALID_VALUE);
	struct range was = forget(r);
	munmap((void *)was.base, was.size);
	close(was.fd);
	return 0;
}

CUresult cuMemGetInfo(size_t *unused, size_t *total) {
	ENTER("cuMemGetInfo");
	CURRENT();
	*unused = (size_t)79 << 30;
	*total = (size_t)80 << 30;
	return 0;
}

#define TRANSFER(name, dst, src, n, dstDevice, srcDevice) \
	CHECK(!dstDevice || reach(current->device, (CUdeviceptr)dst, n), CUDA_ERROR_INVALID_VALUE); \
	CHECK(!srcDevice || reach(current->device, (CUdeviceptr)src, n), CUDA_ERROR_INVALID_VALUE); \
	memmove((void *)dst, (const void *)src, n); \
	return 0

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t n) {
	ENTER("cuMemcpyHtoD bytes=%zu", n);
	CURRENT();
	TRANSFER(cuMemcpyHtoD, dst, src, n, 1, 0);
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t n) {
	ENTER("cuMemcpyDtoH bytes=%zu", n);
	CURRENT();
	TRANSFER(cuMemcpyDtoH, dst, src, n, 0, 1);
}

CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t n) {
	ENTER("cuMemcpyDtoD bytes=%zu", n);
	CURRENT();
	TRANSFER(cuMemcpyDtoD, dst, src, n, 1, 1);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
	ENTER("cuMemcpyHtoDAsync bytes=%zu", n);
	STREAM(s);
	TRANSFER(cuMemcpyHtoDAsync, dst, src, n, 1, 0);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream s) {
	ENTER("cuMemcpyDtoHAsync bytes=%zu", n);
	STREAM(s);
	TRANSFER(cuMemcpyDtoHAsync, dst, src, n, 0, 1);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
	ENTER("cuMemcpyDtoDAsync bytes=%zu", n);
	STREAM(s);
	if (s && ((struct stream *)s)->capturing) {
		struct graph *g = ((struct stream *)s)->graph;
		CHECK(reach(current->device, dst, n) && reach(current->device, src, n), CUDA_ERROR_INVALID_VALUE);
		g->copy = realloc(g->copy, (g->copies + 1) * sizeof *g->copy);
		g->copy[g->copies++] = (struct copy){dst, src, n};
		return 0;
	}
	TRANSFER(cuMemcpyDtoDAsync, dst, src, n, 1, 1);
}

static CUresult fill32(int device, CUdeviceptr p, unsigned v, size_t n) {
	CHECK(reach(device, p, 4 * n), CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++)
		((unsigned *)p)[i] = v;
	return 0;
}

static CUresult fill8(int device, CUdeviceptr p, unsigned char v, size_t n) {
	CHECK(reach(device, p, n), CUDA_ERROR_INVALID_VALUE);
	memset((void *)p, v, n);
	return 0;
}

CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) {
	ENTER("cuMemsetD8 value=%#x bytes=%zu", v, n);
	CURRENT();
	return fill8(current->device, p, v, n);
}

CUresult cuMemsetD32(CUdeviceptr p, unsigned v, size_t n) {
	ENTER("cuMemsetD32 value=%#x words=%zu", v, n);
	CURRENT();
	return fill32(current->device, p, v, n);
}

CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
	ENTER("cuMemsetD8Async value=%#x bytes=%zu", v, n);
	STREAM(s);
	return fill8(current->device, p, v, n);
}

CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s) {
	ENTER("cuMemsetD32Async value=%#x words=%zu", v, n);
	STREAM(s);
	return fill32(current->device, p, v, n);
}

CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) {
	ENTER("cuMemHostAlloc bytes=%zu flags=%u", n, flags);
	CURRENT();
	*p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(*p != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
	add(HOST, *p, n, -1);
	return 0;
}

CUresult cuMemFreeHost(void *p) {
	ENTER("cuMemFreeHost");
	CURRENT();
	struct range *r = find((uintptr_t)p, HOST);
	CHECK(r && r->base == (uintptr_t)p, CUDA_ERROR_INVALID_VALUE);
	munmap(p, forget(r).size);
	return 0;
}

CUresult cuMemHostRegister(void *p, size_t n, unsigned flags) {
	ENTER("cuMemHostRegister bytes=%zu flags=%u", n, flags);
	CURRENT();
	CHECK(find((uintptr_t)p, HOST) == NULL, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	add(HOST, p, n, -1);
	return 0;
}

CUresult cuMemHostUnregister(void *p) {
	ENTER("cuMemHostUnregister");
	CURRENT();
	struct range *r = find((uintptr_t)p, HOST);
	CHECK(r, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	forget(r);
	return 0;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device, void *p, unsigned flags) {
	ENTER("cuMemHostGetDevicePointer flags=%u", flags);
	CURRENT();
	CHECK(find((uintptr_t)p, HOST), CUDA_ERROR_INVALID_VALUE);
	*device = (CUdeviceptr)p;
	return 0;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p) {
	ENTER("cuMemGetAddressRange");
	CURRENT();
	struct range *r = find(p, FREE);
	CHECK(r, CUDA_ERROR_NOT_FOUND);
	*base = r->base;
	*size = r->size;
	return 0;
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **data, CUdeviceptr p) {
	ENTER("cuPointerGetAttributes count=%u", n);
	struct range *r = find(p, FREE);
	static struct range unknown = {FREE, 0, 0, -2, 0, 0, NULL, 0};
	if (r == NULL)
		r = &unknown;
	for (unsigned i = 0; i < n; i++) {
		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(CUmemorytype *)data[i] = r->kind == FREE ? 0 : r->kind == HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
			break;
		case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data[i] = r->id; break;
		case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(bool *)data[i] = r->kind == MANAGED; break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data[i] = r->device; break;
		case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(bool *)data[i] = r->kind == ALLOCATED; break;
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data[i] = r->base; break;
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data[i] = r->size; break;
		default: return CUDA_ERROR_INVALID_VALUE;
		}
	}
	return 0;
}

// Memory that is mapped.

static void noteProp(char *to, size_t room, const CUmemAllocationProp *p) {
	snprintf(to, room, "type=%d handles=%d location=%d:%d win32=%p compression=%d rdma=%d usage=%d",
		p->type, p->requestedHandleTypes, p->location.type, p->location.id, p->win32HandleMetaData,
		p->allocFlags.compressionType, p->allocFlags.gpuDirectRDMACapable, p->allocFlags.usage);
}

CUresult cuMemGetAllocationGranularity(size_t *n, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags option) {
	char prop[256];
	noteProp(prop, sizeof prop, p);
	ENTER("cuMemGetAllocationGranularity %s option=%d", prop, option);
	*n = GRANULARITY;
	return 0;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *p, unsigned long long flags) {
	char prop[256];
	noteProp(prop, sizeof prop, p);
	ENTER("cuMemCreate size=%zu %s flags=%llu", size, prop, flags);
	CHECK(size % GRANULARITY == 0, CUDA_ERROR_INVALID_VALUE);
	CHECK(!(p->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC), CUDA_ERROR_NOT_PERMITTED);
	CHECK(size <= (size_t)80 << 30, CUDA_ERROR_OUT_OF_MEMORY);
	struct memory *m = calloc(1, sizeof *m);
	*m = (struct memory){newMemory(size, p->location.id, p->requestedHandleTypes), size, p->location.id, p->requestedHandleTypes, 1};
	*h = (CUmemGenericAllocationHandle)m;
	return 0;
}

static void drop(struct memory *m) {
	if (--m->refs == 0) {
		close(m->fd);
		free(m);
	}
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
	ENTER("cuMemRelease");
	drop((struct memory *)h);
	return 0;
}

CUresult cuMemExportToShareableHandle(void *to, CUmemGenericAllocationHandle h, CUmemAllocationHandleType type, unsigned long long flags) {
	struct memory *m = (struct memory *)h;
	ENTER("cuMemExportToShareableHandle type=%d flags=%llu", type, flags);
	CHECK(m->types & type, CUDA_ERROR_INVALID_VALUE);
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		memset(to, 0xab, 64);
		return 0;
	}
	*(int *)to = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h, void *from, CUmemAllocationHandleType type) {
	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		unsigned char *b = from;
		ENTER("cuMemImportFromShareableHandle type=%d first=%d last=%d", type, b[0], b[63]);
		return CUDA_ERROR_NOT_PERMITTED;
	}
	int fd = (int)(uintptr_t)from;
	ENTER("cuMemImportFromShareableHandle type=%d", type);
	struct memory *m = calloc(1, sizeof *m);
	struct stat st;
	char path[64], target[128] = {0};
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	m->refs = 1;
	if (fstat(fd, &st) || readlink(path, target, sizeof target - 1) < 0 ||
	    sscanf(target, "/memfd:weft-double-%d-%d", &m->device, &m->types) != 2) {
		free(m);
		return CUDA_ERROR_INVALID_VALUE;
	}
	m->size = st.st_size;
	m->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	*h = (CUmemGenericAllocationHandle)m;
	return 0;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *p) {
	ENTER("cuMemRetainAllocationHandle");
	struct range *r = find((uintptr_t)p, MAPPED);
	CHECK(r, CUDA_ERROR_INVALID_VALUE);
	r->memory->refs++;
	*h = (CUmemGenericAllocationHandle)r->memory;
	return 0;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *p, CUmemGenericAllocationHandle h) {
	struct memory *m = (struct memory *)h;
	ENTER("cuMemGetAllocationPropertiesFromHandle");
	memset(p, 0, sizeof *p);
	p->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p->requestedHandleTypes = m->types;
	p->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p->location.id = m->device;
	return 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *p, size_t size, size_t alignment, CUdeviceptr at, unsigned long long flags) {
	ENTER("cuMemAddressReserve size=%zu alignment=%zu at=%llu flags=%llu", size, alignment, at, flags);
	CHECK(size % GRANULARITY == 0, CUDA_ERROR_INVALID_VALUE);
	// Aligned, by reserving more and giving the ends back.
	char *from = mmap(NULL, size + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(from != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
	char *base = (char *)(((uintptr_t)from + GRANULARITY - 1) / GRANULARITY * GRANULARITY);
	if (base > from)
		munmap(from, base - from);
	if (from + GRANULARITY > base)
		munmap(base + size, from + GRANULARITY - base);
	add(RESERVED, base, size, -1);
	*p = (CUdeviceptr)base;
	return 0;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t size) {
	ENTER("cuMemAddressFree size=%zu", size);
	struct range *r = find(p, RESERVED);
	CHECK(r && r->base == p && r->size == size && find(p, MAPPED) == NULL, CUDA_ERROR_INVALID_VALUE);
	forget(r);
	munmap((void *)p, size);
	return 0;
}

CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags) {
	struct memory *m = (struct memory *)h;
	ENTER("cuMemMap size=%zu offset=%zu flags=%llu", size, offset, flags);
	struct range *r = find(p, RESERVED);
	CHECK(r && find(p, MAPPED) == NULL && size <= r->base + r->size - p, CUDA_ERROR_INVALID_VALUE);
	CHECK(offset == 0 && size == m->size, CUDA_ERROR_INVALID_VALUE);
	CHECK(mmap((void *)p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, 0) == (void *)p, CUDA_ERROR_MAP_FAILED);
	r = add(MAPPED, (void *)p, size, m->device);
	r->memory = m;
	m->refs++;
	return 0;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t size) {
	ENTER("cuMemUnmap size=%zu", size);
	struct range *r = find(p, MAPPED);
	CHECK(r && r->base == p && r->size == size, CUDA_ERROR_INVALID_VALUE);
	drop(forget(r).memory);
	mmap((void *)p, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return 0;
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *desc, size_t n) {
	char list[256] = "";
	for (size_t i = 0; i < n; i++)
		snprintf(list + strlen(list), sizeof list - strlen(list), " %d:%d=%d", desc[i].location.type, desc[i].location.id, desc[i].flags);
	ENTER("cuMemSetAccess size=%zu%s", size, list);
	struct range *r = find(p, MAPPED);
	CHECK(r && r->base == p && r->size == size, CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		int d = desc[i].location.id;
		CHECK(d == r->device || linked(d, r->device), CUDA_ERROR_INVALID_DEVICE);
		r->reach |= 1u << d;
	}
	return 0;
}

// Memory of other processes. Handles say whose descriptor it is.

struct ipc { int pid, fd; size_t size; int device; char rest[40]; };

CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr p) {
	ENTER("cuIpcGetMemHandle");
	CURRENT();
	struct range *r = find(p, ALLOCATED);
	CHECK(r, CUDA_ERROR_INVALID_VALUE);
	struct ipc i = {getpid(), r->fd, r->size, r->device, "this is the end of the handle"};
	_Static_assert(sizeof i == sizeof *h, "size of handles");
	memcpy(h, &i, sizeof *h);
	return 0;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle h, unsigned flags) {
	struct ipc i;
	char path[64];
	memcpy(&i, &h, sizeof h);
	ENTER("cuIpcOpenMemHandle flags=%u end=%.40s", flags, i.rest);
	CURRENT();
	CHECK(strcmp(i.rest, "this is the end of the handle") == 0, CUDA_ERROR_INVALID_VALUE);
	CHECK(i.pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(i.device == current->device || linked(i.device, current->device), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	snprintf(path, sizeof path, "/proc/%d/fd/%d", i.pid, i.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0, CUDA_ERROR_INVALID_VALUE);
	void *at = mmap(NULL, i.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	CHECK(at != MAP_FAILED, CUDA_ERROR_MAP_FAILED);
	add(IPC, at, i.size, i.device);
	peers[current->device] |= 1u << i.device;
	*p = (CUdeviceptr)at;
	return 0;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
	ENTER("cuIpcCloseMemHandle");
	CURRENT();
	struct range *r = find(p, IPC);
	CHECK(r && r->base == p, CUDA_ERROR_INVALID_VALUE);
	munmap((void *)p, forget(r).size);
	return 0;
}

// Code. What begins with "bad" doesn't compile, names with "missing" aren't there.

CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *options, void **values) {
	ENTER("cuModuleLoadDataEx image=%.32s options=%u:%d=%d:%d=%zu", (const char *)image, n, options[0], values[0] != NULL, options[1], (size_t)values[1]);
	CURRENT();
	if (strncmp(image, "bad", 3) == 0) {
		snprintf(values[0], (size_t)values[1], "line 1: what?");
		return CUDA_ERROR_INVALID_PTX;
	}
	*m = (CUmodule)strdup(image);
	return 0;
}

CUresult cuModuleUnload(CUmodule m) {
	ENTER("cuModuleUnload");
	CURRENT();
	free(m);
	return 0;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	ENTER("cuModuleGetFunction name=%s", name);
	CURRENT();
	CHECK(strncmp(name, "missing", 7), CUDA_ERROR_NOT_FOUND);
	struct function *n = calloc(1, sizeof *n);
	snprintf(n->name, sizeof n->name, "%s", name);
	*f = (CUfunction)n;
	return 0;
}

CUresult cuModuleGetGlobal(CUdeviceptr *p, size_t *n, CUmodule m, const char *name) {
	ENTER("cuModuleGetGlobal name=%s", name);
	CURRENT();
	CHECK(strncmp(name, "missing", 7), CUDA_ERROR_NOT_FOUND);
	*p = 0x1000;
	*n = 24;
	return 0;
}

CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) {
	ENTER("cuFuncGetAttribute name=%s attribute=%d", ((struct function *)f)->name, a);
	CURRENT();
	*v = 100 + a;
	return 0;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
	ENTER("cuFuncSetAttribute name=%s attribute=%d value=%d", ((struct function *)f)->name, a, v);
	CURRENT();
	return 0;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) {
	ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor name=%s threads=%d shared=%zu", ((struct function *)f)->name, threads, shared);
	CURRENT();
	*n = 2048 / threads;
	return 0;
}

// The names of kernels end in the sizes of their parameters: kernel_8_4.
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
	char list[2048] = "";
	char *name = ((struct function *)f)->name;
	size_t used = 0;
	if (quiet <= 0) {
		for (unsigned i = 0; i < c->numAttrs; i++) {
			const CUlaunchAttribute *a = &c->attrs[i];
			used += snprintf(list + used, sizeof list - used, " ");
			switch (a->id) {
			case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
				used += snprintf(list + used, sizeof list - used, "cooperative=%d", a->value.cooperative);
				break;
			case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
				used += snprintf(list + used, sizeof list - used, "cluster=%u,%u,%u", a->value.clusterDim.x, a->value.clusterDim.y, a->value.clusterDim.z);
				break;
			case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
				used += snprintf(list + used, sizeof list - used, "programmatic=%d", a->value.programmaticStreamSerializationAllowed);
				break;
			case CU_LAUNCH_ATTRIBUTE_PRIORITY:
				used += snprintf(list + used, sizeof list - used, "priority=%d", a->value.priority);
				break;
			case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
				used += snprintf(list + used, sizeof list - used, "domain=%d", a->value.memSyncDomain);
				break;
			default: return CUDA_ERROR_INVALID_VALUE;
			}
		}
		int i = 0;
		for (char *s = strchr(name, '_'); s; s = strchr(s + 1, '_')) {
			used += snprintf(list + used, sizeof list - used, " param=");
			for (int b = 0; b < atoi(s + 1); b++)
				used += snprintf(list + used, sizeof list - used, "%02x", ((unsigned char *)params[i])[b]);
			i++;
		}
	}
	ENTER("cuLaunchKernelEx name=%s grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%d%s extra=%p", name,
		c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, c->hStream != NULL, list, extra);
	STREAM(c->hStream);
	return 0;
}

// Graphs.

CUresult cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long flags) {
	ENTER("cuGraphInstantiateWithFlags flags=%llu", flags);
	CURRENT();
	struct graph *from = (struct graph *)g, *to = calloc(1, sizeof *to);
	to->copies = from->copies;
	to->copy = calloc(from->copies + 1, sizeof *to->copy);
	if (from->copies)
		memcpy(to->copy, from->copy, from->copies * sizeof *to->copy);
	*x = (CUgraphExec)to;
	return 0;
}

CUresult cuGraphUpload(CUgraphExec x, CUstream s) {
	ENTER("cuGraphUpload");
	STREAM(s);
	return 0;
}

CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
	ENTER("cuGraphLaunch");
	STREAM(s);
	struct graph *g = (struct graph *)x;
	for (int i = 0; i < g->copies; i++)
		memmove((void *)g->copy[i].dst, (void *)g->copy[i].src, g->copy[i].n);
	return 0;
}

CUresult cuGraphDestroy(CUgraph g) {
	ENTER("cuGraphDestroy");
	CURRENT();
	free(((struct graph *)g)->copy);
	free(g);
	return 0;
}

CUresult cuGraphExecDestroy(CUgraphExec x) {
	ENTER("cuGraphExecDestroy");
	CURRENT();
	free(((struct graph *)x)->copy);
	free(x);
	return 0;
}
