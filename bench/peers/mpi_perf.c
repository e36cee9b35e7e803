/* mpi_perf measures an MPI library's collectives by the rules of bench/perf and
 * writes the same JSON lines. It has no Go in it, so that any MPI library can be
 * measured, and the loop is the one that bench/perf times for -peer mpi.
 *
 *	mpi_perf -coll allreduce,barrier -b 8 -e 16M -f 2 -json out.jsonl
 *
 * The rules are those of bench/internal/harness/doc.go, but that the barrier
 * before each batch is MPI's own. Results are not checked. */

#define _GNU_SOURCE
#include "mpiloop/loop.h"

#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define BATCH_TIME 100e-6
#define TRIAL_TIME 300e-6
#define TRIALS 3
#define MOST_BATCH 2000
#define MOST_BATCHES 2000
#define FEWEST 2
#define ALIGN 64

/* In the order of loop.h. */
static const struct {
	const char *name;
	int reduces, rooted, send_per, recv_per; /* see collective.go */
} colls[] = {
	{"allreduce", 1, 0, 0, 0}, {"reduce", 1, 1, 0, 0},  {"broadcast", 0, 1, 0, 0}, {"reducescatter", 1, 0, 1, 0}, {"allgather", 0, 0, 0, 1},
	{"alltoall", 0, 0, 1, 1},  {"gather", 0, 1, 0, 1},  {"scatter", 0, 1, 1, 0},   {"scan", 1, 0, 0, 0},          {"barrier", 0, 0, 0, 0},
};
#define COLLS (int)(sizeof colls / sizeof colls[0])

/* Whether the size is that of the blocks of all ranks. */
static int in_blocks(int coll) { return colls[coll].send_per || colls[coll].recv_per; }

static int rank, ranks;
static FILE *json;

/* What the flags say. */
static const char *coll_flag = "allreduce", *type = "float", *op = "sum", *label = "", *note = "",
		  *revision = "unknown", *path = "";
static double factor = 2, budget = 0.1;
static long from = 8, to = 16 << 20;
static int warmup = 5, blocks = 5;

static void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (rank == 0) {
		fprintf(stderr, "mpi_perf: ");
		vfprintf(stderr, format, args);
		fprintf(stderr, "\n");
	}
	va_end(args);
	if (json)
		fprintf(json, "{\"error\":\"mpi_perf failed, see its output\",\"ranks\":%d}\n", ranks), fclose(json);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void must(int err)
{
	char text[MPI_MAX_ERROR_STRING];
	int n;
	if (err == MPI_SUCCESS)
		return;
	MPI_Error_string(err, text, &n);
	die("%s", text);
}

static long size_of(const char *s)
{
	char *end;
	double x = strtod(s, &end);
	switch (*end) {
	case 'K': x *= 1 << 10; break;
	case 'M': x *= 1 << 20; break;
	case 'G': x *= 1 << 30; break;
	case 0: break;
	default: die("size %s", s);
	}
	return (long)x;
}

static int type_size(const char *name)
{
	if (strstr(name, "64") || strcmp(name, "double") == 0)
		return 8;
	if (strcmp(name, "half") == 0 || strstr(name, "16"))
		return 2;
	return strstr(name, "int8") ? 1 : 4;
}

static void quoted(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc((unsigned char)*s < ' ' ? ' ' : *s, f);
	}
	fputc('"', f);
}

static long cache_size(void)
{
	char text[32] = "";
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
	long n = 0;
	if (f) {
		if (fscanf(f, "%31s", text) == 1)
			n = size_of(text);
		fclose(f);
	}
	return n > 0 ? n : 32L << 20;
}

static void affinity(char *out, size_t len)
{
	cpu_set_t set;
	int i, j, n = 0;
	out[0] = 0;
	if (sched_getaffinity(0, sizeof set, &set) != 0)
		return;
	for (i = 0; i < CPU_SETSIZE; i = j + 1) {
		j = i;
		if (!CPU_ISSET(i, &set))
			continue;
		while (j + 1 < CPU_SETSIZE && CPU_ISSET(j + 1, &set))
			j++;
		n += snprintf(out + n, len - n, i == j ? "%s%d" : "%s%d-%d", n ? "," : "", i, j);
		if (n >= (int)len - 16)
			return;
	}
}

/* The part of a line that is the same in all. */
static char *environment(int argc, char **argv, const char *version)
{
	char mine[256], model[128] = "", line[256], *all = malloc(256 * ranks), *out = NULL;
	size_t len;
	struct utsname u;
	int i, same = 1;
	FILE *f;
	affinity(mine, sizeof mine);
	must(MPI_Gather(mine, 256, MPI_CHAR, all, 256, MPI_CHAR, 0, MPI_COMM_WORLD));
	if (rank != 0)
		return NULL;
	f = fopen("/proc/cpuinfo", "r");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
			snprintf(model, sizeof model, "%.100s", strchr(line, ':') + 2);
			model[strcspn(model, "\n")] = 0;
		}
	if (f)
		fclose(f);
	uname(&u);
	f = open_memstream(&out, &len);
	fprintf(f, "{\"machine\":");
	quoted(f, model);
	fprintf(f, ",\"cores\":%ld,\"affinity\":\"", sysconf(_SC_NPROCESSORS_ONLN));
	for (i = 1; i < ranks; i++)
		same = same && strcmp(all, all + 256 * i) == 0;
	for (i = 0; i < (same ? 1 : ranks); i++)
		fprintf(f, "%s%s", i ? ";" : "", all + 256 * i);
	fprintf(f, "\",\"kernel\":");
	quoted(f, u.release);
	fprintf(f, ",\"go\":\"\",\"mpi\":");
	quoted(f, version);
	fprintf(f, ",\"revision\":");
	quoted(f, revision);
	fprintf(f, ",\"command\":\"mpi_perf");
	for (i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], "-label") && strcmp(argv[i], "-note") && strcmp(argv[i], "-revision") && strcmp(argv[i], "-json"))
			fprintf(f, " %s %s", argv[i], argv[i + 1]);
	if (*note)
		fprintf(f, " (%s)", note);
	fprintf(f, "\"}");
	fclose(f);
	free(all);
	return out;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q)
{
	double at = q * (n - 1), f;
	int i = (int)at;
	if (i + 1 >= n)
		return sorted[n - 1];
	f = at - i;
	return sorted[i] * (1 - f) + sorted[i + 1] * f;
}

/* A lane is one place, out of place or in place, of one row. */
struct lane {
	struct weft_loop loop;
	char *src, *dst;
	int batch, batches;
	double *samples; /* blocks x batches */
};

static long next; /* number of the next call of any lane */

static double timed(struct lane *l, int calls)
{
	double seconds;
	must(weft_loop_barrier());
	must(weft_loop_run(&l->loop, type, op, l->src, l->dst, next, calls, &seconds));
	next += calls;
	return seconds;
}

static void plan(struct lane *l, int rooted)
{
	double each, mine[TRIALS], worst[TRIALS], least, n;
	int calls, i;
	if (warmup > 0)
		timed(l, warmup);
	for (calls = 1;; calls *= 2) {
		for (i = 0; i < TRIALS; i++)
			mine[i] = timed(l, calls);
		must(MPI_Allreduce(mine, worst, TRIALS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
		least = worst[0]; /* the one that was disturbed least */
		for (i = 1; i < TRIALS; i++)
			least = worst[i] < least ? worst[i] : least;
		each = least / calls;
		if (least >= TRIAL_TIME || calls >= MOST_BATCH)
			break;
	}
	if (each < 1e-9)
		each = 1e-9;
	n = BATCH_TIME / each;
	if (n > MOST_BATCH)
		n = MOST_BATCH;
	l->batch = (int)n + (n > (int)n);
	if (rooted)
		l->batch = (l->batch + ranks - 1) / ranks * ranks;
	n = budget / blocks / (each * l->batch);
	l->batches = n < FEWEST ? FEWEST : n > MOST_BATCHES ? MOST_BATCHES : (int)n;
	l->samples = malloc(sizeof(double) * l->batches * blocks);
}

static void block(struct lane *l, int b)
{
	int i;
	for (i = 0; i < l->batches; i++)
		l->samples[b * l->batches + i] = timed(l, l->batch) / l->batch;
}

static void report(struct lane *l, const char *version, const char *env, long bytes, long count)
{
	int n = l->batches * blocks, b, p99, coll = l->loop.coll, reduces = colls[coll].reduces;
	double *worst = malloc(sizeof(double) * n), median, mean = 0, lowest = 1e30, highest = 0, spread, bus;
	must(MPI_Reduce(l->samples, worst, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
	if (rank == 0) {
		for (b = 0; b < blocks; b++) {
			qsort(worst + b * l->batches, l->batches, sizeof(double), ascending);
			median = quantile(worst + b * l->batches, l->batches, 0.5);
			lowest = median < lowest ? median : lowest;
			highest = median > highest ? median : highest;
		}
		qsort(worst, n, sizeof(double), ascending);
		for (b = 0; b < n; b++)
			mean += worst[b] / n;
		median = quantile(worst, n, 0.5);
		spread = quantile(worst, n, 0.75) - quantile(worst, n, 0.25);
		spread = (highest - lowest > spread ? highest - lowest : spread) / 2 / median;
		p99 = (99 * n + 99) / 100 - 1;
		bus = coll == WEFT_ALLREDUCE ? 2.0 * (ranks - 1) / ranks : in_blocks(coll) ? (ranks - 1.0) / ranks : 1;
		printf("%12ld  %12ld  %8s  %6s  %5s  %10.2f us  +-%.2f%%  (%d batches of %d)\n", bytes, count, type, reduces ? op : "none",
		       l->loop.in_place ? "in" : "out", median * 1e6, spread * 100, n, l->batch);
		fflush(stdout);
		if (json) {
			fprintf(json, "{\"library\":");
			quoted(json, *label ? label : version);
			fprintf(json, ",\"coll\":\"%s\",\"algo\":\"library\",\"transport\":\"mpi\",\"memory\":\"slice\",\"form\":\"blocking\",\"device\":\"cpu\",\"ranks\":%d",
				colls[coll].name, ranks);
			fprintf(json, ",\"bytes\":%ld,\"count\":%ld,\"type\":\"%s\",\"op\":\"%s\",\"root\":-1,\"inplace\":%s", bytes, count, type,
				reduces ? op : "none", l->loop.in_place ? "true" : "false");
			fprintf(json, ",\"time_us\":%.6g,\"p50_us\":%.6g,\"p99_us\":%.6g,\"algbw_gbs\":%.6g,\"busbw_gbs\":", median * 1e6,
				median * 1e6, worst[p99] * 1e6, bytes / median / 1e9);
			if (ranks > 1 && coll != WEFT_BARRIER && coll != WEFT_SCAN)
				fprintf(json, "%.6g", bytes / median / 1e9 * bus);
			else
				fprintf(json, "null");
			fprintf(json, ",\"wrong\":null,\"peer\":\"\",\"peer_p50_us\":null,\"ratio\":null,\"reports\":0,\"retries\":0,\"reroutes\":0");
			fprintf(json, ",\"mean_us\":%.6g,\"spread_pct\":%.6g,\"peer_spread_pct\":null,\"batch\":%d,\"batches\":%d,\"warm\":false,\"env\":%s}\n",
				mean * 1e6, spread * 100, l->batch, n, env);
			fflush(json);
		}
	}
	free(worst);
}

static long round_up(long n, long to_) { return (n + to_ - 1) / to_ * to_; }

/* One collective at one size. */
static void row(int coll, long count, char *src, char *dst, long region, const char *version, const char *env)
{
	int elem = type_size(type), one_sided = coll == WEFT_BROADCAST || coll == WEFT_BARRIER, lanes = 0, b, i;
	long src_bytes = count * elem * (colls[coll].send_per ? ranks : 1), dst_bytes = count * elem * (colls[coll].recv_per ? ranks : 1);
	struct lane lane[2];
	memcpy(dst, src, region);
	next = 0;
	for (i = one_sided; i < 2; i++) {
		struct lane *l = &lane[lanes];
		if (!weft_loop_supports(coll, i, type, op))
			continue;
		lanes++;
		memset(l, 0, sizeof *l);
		l->loop.coll = coll;
		l->loop.root = -1;
		l->loop.in_place = i;
		l->loop.count = (int)count;
		l->loop.elem = elem;
		l->loop.src_stride = round_up(src_bytes ? src_bytes : 1, ALIGN);
		l->loop.dst_stride = round_up(dst_bytes ? dst_bytes : 1, ALIGN);
		if (i && l->loop.dst_stride < l->loop.src_stride)
			l->loop.dst_stride = l->loop.src_stride;
		l->loop.slots = region / (long)(l->loop.src_stride > l->loop.dst_stride ? l->loop.src_stride : l->loop.dst_stride);
		l->src = src;
		l->dst = dst;
	}
	for (i = 0; i < lanes; i++)
		plan(&lane[i], colls[coll].rooted);
	for (b = 0; b < blocks; b++)
		for (i = 0; i < lanes; i++)
			block(&lane[b % 2 ? lanes - 1 - i : i], b);
	for (i = 0; i < lanes; i++) {
		report(&lane[i], version, env, count * elem * (in_blocks(coll) ? ranks : 1), count);
		free(lane[i].samples);
	}
}

static void collective(int coll, const char *version, const char *env)
{
	int elem = type_size(type), per = in_blocks(coll);
	long region = 2 * cache_size() / ranks, slot = round_up(per ? to + ranks * elem : to, ALIGN), size, count, last = -1, i;
	char *src, *dst;
	if (!weft_loop_supports(coll, 0, type, op))
		die("MPI has no %s of type %s with operator %s", colls[coll].name, type, op);
	if (region < 2 * slot)
		region = 2 * slot;
	if (posix_memalign((void **)&src, 4096, region) || posix_memalign((void **)&dst, 4096, region))
		die("no memory");
	/* Small whole numbers in every type, other ones in every slot. */
	for (i = 0; i < region / elem; i++) {
		int x = (int)((i * 2654435761u + rank * 40503u) >> 7) & 15;
		if (strcmp(type, "float") == 0)
			((float *)src)[i] = x;
		else if (strcmp(type, "double") == 0)
			((double *)src)[i] = x;
		else
			memset(src + i * elem, 0, elem), src[i * elem] = x;
	}
	if (rank == 0)
		printf("# %s: %s, %d ranks%s%s\n", *label ? label : version, colls[coll].name, ranks, *note ? ", " : "", note);
	for (size = from; size <= to; size = (long)(size * factor + 0.5)) {
		count = coll == WEFT_BARRIER ? 0 : size / elem / (per ? ranks : 1);
		if (count < 1 && coll != WEFT_BARRIER)
			count = 1;
		if (count == last)
			continue;
		last = count;
		row(coll, count, src, dst, region, version, env);
	}
	free(src);
	free(dst);
}

/* Stores the numbers of the collectives that are named, with commas between
 * them or all, in that order and each once; returns how many they are. */
static int choose(const char *names, int *chosen)
{
	char *list = strdup(names), *rest = list, *name;
	int n = 0, i, j;
	if (strcmp(names, "all") == 0) {
		for (i = 0; i < COLLS; i++)
			chosen[n++] = i;
		rest = NULL;
	}
	while ((name = strsep(&rest, ","))) {
		for (i = 0; i < COLLS && strcmp(name, colls[i].name); i++)
			;
		if (i == COLLS)
			die("collective \"%s\"", name);
		for (j = 0; j < n && chosen[j] != i; j++)
			;
		if (j == n)
			chosen[n++] = i;
	}
	free(list);
	return n;
}

int main(int argc, char **argv)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	const char *env;
	int i, n, provided, chosen[COLLS], n_chosen;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (i = 1; i < argc; i += 2) {
		const char *f = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		if (!v)
			die("%s: a value is missing", f);
		if (strcmp(f, "-coll") == 0) coll_flag = v;
		else if (strcmp(f, "-t") == 0 || strcmp(f, "-d") == 0) type = v;
		else if (strcmp(f, "-o") == 0) op = v;
		else if (strcmp(f, "-b") == 0) from = size_of(v);
		else if (strcmp(f, "-e") == 0) to = size_of(v);
		else if (strcmp(f, "-f") == 0) factor = atof(v);
		else if (strcmp(f, "-w") == 0) warmup = atoi(v);
		else if (strcmp(f, "-budget") == 0) budget = atof(v) / (strstr(v, "ms") ? 1000 : 1);
		else if (strcmp(f, "-blocks") == 0) blocks = atoi(v);
		else if (strcmp(f, "-label") == 0) label = v;
		else if (strcmp(f, "-note") == 0) note = v;
		else if (strcmp(f, "-revision") == 0) revision = v;
		else if (strcmp(f, "-json") == 0) path = v;
		else die("unknown flag %s", f);
	}
	n_chosen = choose(coll_flag, chosen);
	if (from < 1 || to < from || factor <= 1 || blocks < 1)
		die("-b at least 1, -e at least -b, -f above 1, -blocks at least 1");
	must(weft_loop_init());
	MPI_Get_library_version(version, &n);
	if (strncmp(version, "MPICH", 5) == 0) { /* "MPICH Version: 4.0.2" and more lines */
		char *v = strchr(version, ':'), number[64] = "";
		if (v)
			sscanf(v + 1, " %63s", number);
		snprintf(version, sizeof version, "MPICH %s", number);
	}
	version[strcspn(version, ",\n")] = 0;
	if (rank == 0 && *path && !(json = fopen(path, "w")))
		die("%s can't be written", path);
	env = environment(argc, argv, version);
	for (i = 0; i < n_chosen; i++)
		collective(chosen[i], version, env);
	if (json)
		fclose(json);
	MPI_Finalize();
	return 0;
}
