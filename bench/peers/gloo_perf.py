"""Measures the collectives of Gloo, as PyTorch offers them, by the rules of
bench/perf, and writes the same JSON lines.

The rules are those of bench/internal/harness/doc.go, but that the barrier
before each batch is Gloo's and that the loop is in Python, as it is for those
who use it. Results are not checked.
"""

import argparse
import json
import math
import os
import platform
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

BATCH_TIME, TRIAL_TIME, TRIALS = 100e-6, 300e-6, 3
MOST_BATCH, MOST_BATCHES, FEWEST, ALIGN = 2000, 2000, 2, 64
# PyTorch has no Scan.
COLLECTIVES = ["allreduce", "reduce", "broadcast", "reducescatter", "allgather", "alltoall", "gather", "scatter", "barrier"]
SEND_PER = ("reducescatter", "alltoall", "scatter")
RECV_PER = ("allgather", "alltoall", "gather")
PER_RANK = SEND_PER + RECV_PER
ROOTED = ("reduce", "broadcast", "gather", "scatter")
REDUCES = ("allreduce", "reduce", "reducescatter")
# Gloo works in place but where there are blocks.
PLACES = {coll: [False] for coll in PER_RANK}


def size_of(text):
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1].upper(), 1)
    return int(float(text.rstrip("KMGkmg")) * unit)


def seconds_of(text):
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text.rstrip("s"))


def cache_size():
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as f:
            return size_of(f.read().strip())
    except OSError:
        return 32 << 20


def quantile(ordered, q):
    at = q * (len(ordered) - 1)
    i = int(at)
    if i + 1 >= len(ordered):
        return ordered[-1]
    return ordered[i] * (1 - (at - i)) + ordered[i + 1] * (at - i)


def median(values):
    return quantile(sorted(values), 0.5)


def intervals(cpus):
    parts, cpus = [], sorted(cpus)
    while cpus:
        n = 1
        while n < len(cpus) and cpus[n] == cpus[0] + n:
            n += 1
        parts.append(str(cpus[0]) if n == 1 else f"{cpus[0]}-{cpus[n - 1]}")
        cpus = cpus[n:]
    return ",".join(parts)


def environment(args):
    model = ""
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
    masks = [None] * dist.get_world_size()
    dist.all_gather_object(masks, intervals(os.sched_getaffinity(0)))
    return {
        "machine": model,
        "cores": os.cpu_count(),
        "affinity": masks[0] if len(set(masks)) == 1 else ";".join(masks),
        "kernel": platform.release(),
        "go": "",
        "mpi": "none",
        "revision": args.revision,
        "command": f"gloo_perf.py -coll {args.coll} -b {args.b} -e {args.e} -f {args.f:g} -w {args.w} -blocks {args.blocks} -budget {args.budget:g} (Python {platform.python_version()})",
    }


class Row:
    """One collective at one size. All calls of a row share one count, by which slots rotate."""

    def __init__(self, coll, count, src, dst):
        self.coll, self.next = coll, 0
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        n_src = count * (self.ranks if coll in SEND_PER else 1)
        n_dst = count * (self.ranks if coll in RECV_PER else 1)
        align = ALIGN // src.element_size()
        stride = max(align, (max(n_src, n_dst) + align - 1) // align * align)
        self.slots = len(src) // stride
        # Views are made beforehand where there are few enough, as a program would keep its tensors.
        self.views = [
            (src[k * stride : k * stride + n_src], dst[k * stride : k * stride + n_dst])
            for k in range(min(self.slots, (1 << 17) // (self.ranks if coll in ("gather", "scatter") else 1)))
        ]
        if coll == "gather":  # PyTorch wants the blocks as a list
            self.views = [(s, list(d.split(count))) for s, d in self.views]
        elif coll == "scatter":
            self.views = [(list(s.split(count)), d) for s, d in self.views]
        self.slots = len(self.views)

    def run(self, in_place, calls):
        coll, rank, ranks = self.coll, self.rank, self.ranks
        views, slots, first = self.views, self.slots, self.next
        self.next += calls
        begin = time.perf_counter()
        for call in range(first, first + calls):
            src, dst = views[call % slots]
            if coll == "allreduce":
                if not in_place:
                    dst.copy_(src)
                dist.all_reduce(dst)
            elif coll == "reduce":
                if not in_place:
                    dst.copy_(src)
                dist.reduce(dst, call % ranks)
            elif coll == "broadcast":
                dist.broadcast(dst, call % ranks)
            elif coll == "allgather":
                dist.all_gather_into_tensor(dst, src)
            elif coll == "alltoall":
                dist.all_to_all_single(dst, src)
            elif coll == "reducescatter":
                dist.reduce_scatter_tensor(dst, src)
            elif coll == "gather":
                root = call % ranks
                dist.gather(src, dst if rank == root else None, root)
            elif coll == "scatter":
                root = call % ranks
                dist.scatter(dst, src if rank == root else None, root)
            else:
                dist.barrier()
        return time.perf_counter() - begin

    def timed(self, in_place, calls):
        dist.barrier()
        return self.run(in_place, calls)

    def plan(self, in_place, args):
        if args.w > 0:
            self.timed(in_place, args.w)
        calls = 1
        while True:
            worst = torch.tensor([self.timed(in_place, calls) for _ in range(TRIALS)], dtype=torch.float64)
            dist.all_reduce(worst, dist.ReduceOp.MAX)
            least = worst.min().item()  # the one that was disturbed least
            if least >= TRIAL_TIME or calls >= MOST_BATCH:
                break
            calls *= 2
        each = max(least / calls, 1e-9)
        batch = math.ceil(min(BATCH_TIME / each, MOST_BATCH))
        if self.coll in ROOTED:
            batch = (batch + self.ranks - 1) // self.ranks * self.ranks
        return batch, int(min(max(args.budget / args.blocks / (each * batch), FEWEST), MOST_BATCHES))


def measure(coll, count, src, dst, args, env, out):
    dst.copy_(src)
    row = Row(coll, count, src, dst)
    places = PLACES.get(coll, [True] if coll in ("broadcast", "barrier") else [False, True])
    plans = {p: row.plan(p, args) for p in places}
    samples = {p: [] for p in places}
    for b in range(args.blocks):
        for p in places if b % 2 == 0 else places[::-1]:
            batch, batches = plans[p]
            samples[p].append([row.timed(p, batch) / batch for _ in range(batches)])
    for p in places:
        worst = torch.tensor(samples[p], dtype=torch.float64)
        dist.all_reduce(worst, dist.ReduceOp.MAX)
        if row.rank:
            continue
        blocks = worst.tolist()
        ordered = sorted(x for b in blocks for x in b)
        mid = quantile(ordered, 0.5)
        medians = [median(b) for b in blocks]
        spread = max(quantile(ordered, 0.75) - quantile(ordered, 0.25), max(medians) - min(medians)) / 2 / mid
        size = count * src.element_size() * (row.ranks if coll in PER_RANK else 1)
        factor = 2 * (row.ranks - 1) / row.ranks if coll == "allreduce" else (row.ranks - 1) / row.ranks if coll in PER_RANK else 1
        algbw = size / mid / 1e9
        line = {
            "library": f"Gloo (PyTorch {torch.__version__})", "coll": coll, "algo": "library", "transport": "tcp",
            "memory": "slice", "form": "blocking", "device": "cpu", "ranks": row.ranks, "bytes": size, "count": count, "type": args.t,
            "op": "sum" if coll in REDUCES else "none", "root": -1, "inplace": p,
            "time_us": mid * 1e6, "p50_us": mid * 1e6, "p99_us": ordered[max(math.ceil(0.99 * len(ordered)) - 1, 0)] * 1e6,
            "algbw_gbs": algbw, "busbw_gbs": algbw * factor if row.ranks > 1 and coll != "barrier" else None,
            "wrong": None, "peer": "", "peer_p50_us": None, "ratio": None, "reports": 0, "retries": 0, "reroutes": 0,
            "mean_us": sum(ordered) / len(ordered) * 1e6, "spread_pct": spread * 100, "peer_spread_pct": None,
            "batch": plans[p][0], "batches": len(ordered), "warm": False, "env": env,
        }
        out.write(json.dumps(line) + "\n")
        out.flush()
        print(f"{coll:>13} {size:>10} {'in' if p else 'out':>4} {mid * 1e6:>12.2f} us  ±{spread * 100:.2f}%", flush=True)


def rank_main(rank, args, store):
    torch.set_num_threads(1)
    cpus = sorted(os.sched_getaffinity(0))
    if args.ranks <= len(cpus):  # as mpirun binds its ranks
        os.sched_setaffinity(0, {cpus[rank]})
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=args.ranks)
    env = environment(args)
    out = open(args.json, "w") if rank == 0 else None
    try:
        dtype = {"float": torch.float32, "double": torch.float64, "int32": torch.int32, "int64": torch.int64}[args.t]
        elem = torch.empty(0, dtype=dtype).element_size()
        region = max(2 * cache_size() // args.ranks, 2 * (args.e + ALIGN)) // elem
        src = (torch.arange(region, dtype=torch.int64) * 40503 + rank * 97).bitwise_right_shift(7).bitwise_and(15).to(dtype)
        dst = torch.empty_like(src)
        for coll in COLLECTIVES if args.coll == "all" else args.coll.split(","):
            if rank == 0:
                print(f"# Gloo, PyTorch {torch.__version__}: {coll}, {args.ranks} ranks", flush=True)
            size, last = args.b, -1
            while size <= args.e:
                count = 0 if coll == "barrier" else max(size // elem // (args.ranks if coll in PER_RANK else 1), 1)
                if count != last:
                    measure(coll, count, src, dst, args, env, out)
                last, size = count, int(size * args.f + 0.5)
    except BaseException as e:
        if rank == 0:
            out.write(json.dumps({"error": str(e), "ranks": args.ranks, "env": env}) + "\n")
        raise
    finally:
        if rank == 0:
            out.close()
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-ranks", type=int, default=2)
    p.add_argument("-coll", default="allreduce")
    p.add_argument("-b", type=size_of, default=8)
    p.add_argument("-e", type=size_of, default=16 << 20)
    p.add_argument("-f", type=float, default=2)
    p.add_argument("-t", "-d", default="float")
    p.add_argument("-w", type=int, default=5)
    p.add_argument("-budget", type=seconds_of, default=0.1)
    p.add_argument("-blocks", type=int, default=5)
    p.add_argument("-json", default="gloo.jsonl")
    p.add_argument("-revision", default="unknown")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        mp.spawn(rank_main, (args, os.path.join(d, "store")), nprocs=args.ranks)


if __name__ == "__main__":
    main()
