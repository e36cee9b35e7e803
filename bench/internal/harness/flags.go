package harness

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-go/weft/kernels"
	kernelscuda "github.com/weft-go/weft/kernels/cuda"
)

// config is what the flags say.
type config struct {
	colls     []*collective
	types     []kernels.Type
	ops       []kernels.Op
	sizes     sizes
	algo      string
	transport string
	device    string // "cpu", "cuda"
	memory    string
	form      form
	root      int // -1: rotates
	iters     int // 0: by budget
	cycles    int // of the whole sweep
	warmup    int
	check     int
	batch     int // 0: by trial
	blocks    int
	budget    time.Duration
	timeout   time.Duration
	warm      bool
	peer      string // "", "mpi", "empi", "file", "nccl", "nccl-symmetric"
	peerFile  string
	json      string
	verbose   bool
	usage     bool
	args      []string
}

// parseFlags reads a program's arguments. algo is the program's own algorithm,
// which no flag changes, or nothing.
func parseFlags(name, algo string, args []string, help io.Writer) (config, error) {
	c := config{args: args}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var colls, typ, op, from, to, step, timeout, peer, form string
	alias := func(short, long string, define func(name, usage string), usage string) {
		define(short, usage)
		if long != "" {
			define(long, "same as -"+short)
		}
	}
	text := func(p *string, value string) func(string, string) {
		return func(n, u string) { fs.StringVar(p, n, value, u) }
	}
	number := func(p *int, value int) func(string, string) {
		return func(n, u string) { fs.IntVar(p, n, value, u) }
	}
	alias("b", "minbytes", text(&from, "8"), "first `size` in bytes; K, M and G are 2^10, 2^20 and 2^30")
	alias("e", "maxbytes", text(&to, "16M"), "last `size`")
	alias("f", "stepfactor", func(n, u string) { fs.Float64Var(&c.sizes.factor, n, 2, u) }, "`factor` from one size to the next; 1: steps as -i says")
	alias("i", "stepbytes", text(&step, ""), "`step` from one size to the next, instead of -f")
	alias("n", "iters", number(&c.iters, 0), "`calls` that are timed per row; 0: as many as -budget allows")
	alias("N", "run_cycles", number(&c.cycles, 1), "`times` that the whole sweep is repeated; a row is then of all of them")
	alias("w", "warmup_iters", number(&c.warmup, 5), "`calls` before that")
	alias("c", "check", number(&c.check, 1), "`calls` per row whose results are checked, every element; 0: none")
	alias("o", "op", text(&op, "sum"), "`operator`: sum, prod, max, min, avg, several with commas, all")
	alias("t", "datatype", text(&typ, "float"), "element `type`: float, half, bfloat16, double, int8, f8e4m3, …, several with commas, all; on GPUs all that are reduced there")
	fs.StringVar(&typ, "d", "float", "same as -t")
	alias("r", "root", text(new(string), ""), "`rank` that is the root; by default it moves on with every call")
	alias("T", "timeout", text(&timeout, "60s"), "`time` after which a call fails: seconds, or a duration such as 2m")
	fs.StringVar(&colls, "coll", "allreduce", "`collective`: "+collectiveNames()+", several with commas, all")
	if algo == "" {
		fs.StringVar(&c.algo, "algo", "", "`algorithm`, as in WEFT_ALGO; the table says what ran")
	} else {
		c.algo = algo
	}
	fs.StringVar(&c.transport, "transport", "", "`transport`, as in WEFT_TRANSPORT")
	fs.StringVar(&c.device, "device", "cpu", "`where` the data are: cpu, or cuda, a GPU for each rank")
	fs.StringVar(&c.memory, "memory", "", "`kind` of buffers: slice (Go heap, the default) or symmetric (comm.Alloc); on GPUs symmetric (comm.AllocDevice, the default) or plain (unknown to other ranks)")
	fs.StringVar(&form, "form", "", fmt.Sprintf("`form` of our calls: blocking (the default), persistent (set up once for each buffer, of which there are %d at most, and run), started (and waited for at once); on GPUs, of the peer's too, graph (of %d calls, the default), stream (enqueued one by one)", mostPersistent, graphCalls))
	fs.BoolVar(&c.warm, "warm", false, "use one buffer over and over: what is then measured is the cache")
	fs.StringVar(&peer, "peer", "", "`peer` to compare with: mpi, empi (both need -tags mpi), or file:X.jsonl; on GPUs nccl, nccl-symmetric (whose buffers are windows)")
	fs.StringVar(&c.json, "json", "", "`file` for the results, one JSON object per line")
	fs.DurationVar(&c.budget, "budget", 100*time.Millisecond, "`time` to spend on each column of each row")
	fs.IntVar(&c.batch, "batch", 0, "`calls` that are timed together; 0: enough for 100µs")
	fs.IntVar(&c.blocks, "blocks", 5, "number of `blocks` in which ours and the peer's take turns")
	fs.BoolVar(&c.verbose, "v", false, "print how each row was measured")
	alias("C", "report_cputime", func(n, u string) { fs.BoolVar(&c.usage, n, false, u) }, "print how much of a processor each row took, and how much of that to wait")

	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		usage(fs, name, algo, help)
		return c, err
	}
	if err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected %q", fs.Arg(0))
	}
	return c, c.finish(fs, colls, typ, op, from, to, step, timeout, peer, form)
}

// finish turns text into values and checks them.
func (c *config) finish(fs *flag.FlagSet, colls, typ, op, from, to, step, timeout, peer, form string) error {
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("-%s: %w", flag, err))
		}
	}
	var err error
	c.colls, err = parseCollectives(colls)
	note("coll", err)
	c.types, err = parseTypes(typ)
	note("t", err)
	c.ops, err = parseOps(op)
	note("o", err)
	if err == nil && len(c.colls) > 0 && !slices.ContainsFunc(c.colls, func(coll *collective) bool { return len(coll.operators(c.ops)) > 0 }) {
		note("o", fmt.Errorf("%s: no such operator", c.colls[0].name))
	}
	c.sizes.min, err = parseSize(from)
	note("b", err)
	c.sizes.max, err = parseSize(to)
	note("e", err)
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if (given["b"] || given["minbytes"]) && !given["e"] && !given["maxbytes"] {
		c.sizes.max = max(c.sizes.max, c.sizes.min)
	}
	if step != "" {
		c.sizes.step, err = parseSize(step)
		note("i", err)
		if !given["f"] && !given["stepfactor"] {
			c.sizes.factor = 1
		}
	}
	if err == nil {
		errs = append(errs, c.sizes.validate())
	}
	c.timeout, err = parseTimeout(timeout)
	note("T", err)
	c.root = -1
	for _, name := range []string{"r", "root"} {
		if given[name] {
			c.root, err = strconv.Atoi(fs.Lookup(name).Value.String())
			if err != nil || c.root < -1 {
				note("r", fmt.Errorf("%q is no rank", fs.Lookup(name).Value))
			}
		}
	}
	if c.device != "cpu" && c.device != "cuda" {
		note("device", fmt.Errorf("%q; known are cpu, cuda", c.device))
	}
	onGPU := c.device == "cuda"
	if form == "" {
		form = string(blocking)
		if onGPU {
			form = string(graph)
		}
	}
	c.form, err = parseForm(form)
	if err == nil && (c.form == graph || c.form == stream) != onGPU {
		err = fmt.Errorf("%s is no form of calls with -device %s", c.form, c.device)
	}
	note("form", err)
	kinds := []string{"slice", "symmetric"}
	if onGPU {
		kinds = []string{"symmetric", "plain"}
	}
	if c.memory == "" {
		c.memory = kinds[0]
	}
	if !slices.Contains(kinds, c.memory) {
		note("memory", fmt.Errorf("%q; known are %s with -device %s", c.memory, strings.Join(kinds, ", "), c.device))
	}
	if onGPU {
		note("device", c.finishGPU(colls, typ))
	}
	switch file, is := strings.CutPrefix(peer, "file:"); {
	case is && file != "":
		c.peer, c.peerFile = "file", file
	case peer == "":
	case !onGPU && (peer == "mpi" || peer == "empi"), onGPU && (peer == "nccl" || peer == "nccl-symmetric"):
		c.peer = peer
		if peer == "nccl-symmetric" && c.memory != "symmetric" {
			note("peer", fmt.Errorf("%s has symmetric memory, not %s", peer, c.memory))
		}
	case slices.Contains([]string{"mpi", "empi", "nccl", "nccl-symmetric"}, peer):
		note("peer", fmt.Errorf("%s does not go with -device %s", peer, c.device))
	default:
		note("peer", fmt.Errorf("%q; known are mpi, empi, file:X.jsonl, and on GPUs nccl, nccl-symmetric", peer))
	}
	for _, n := range []struct {
		flag       string
		have, want int
	}{{"n", c.iters, 0}, {"N", c.cycles, 1}, {"w", c.warmup, 0}, {"c", c.check, 0}, {"batch", c.batch, 0}, {"blocks", c.blocks, 1}} {
		if n.have < n.want {
			note(n.flag, fmt.Errorf("%d: at least %d", n.have, n.want))
		}
	}
	if c.budget <= 0 {
		note("budget", fmt.Errorf("%v: more than 0", c.budget))
	}
	return errors.Join(errs...)
}

// finishGPU leaves what GPUs have of all collectives and types, and refuses the rest.
func (c *config) finishGPU(names, types string) error {
	if c.algo != "" {
		return errors.New("algorithms can't be asked for on GPUs")
	}
	if slices.Contains(strings.Split(names, ","), "all") {
		c.colls = slices.DeleteFunc(c.colls, func(coll *collective) bool { return coll.hostOnly })
	}
	for _, coll := range c.colls {
		if coll.hostOnly {
			return fmt.Errorf("there is no %s on GPUs", coll.name)
		}
	}
	hostOnly := func(t kernels.Type) bool { return !kernelscuda.Supports(t, kernels.Sum) }
	if types == "all" {
		c.types = slices.DeleteFunc(c.types, hostOnly)
	}
	i := slices.IndexFunc(c.types, hostOnly)
	j := slices.IndexFunc(c.colls, func(coll *collective) bool { return coll.reduces })
	if i >= 0 && j >= 0 {
		return fmt.Errorf("there is no %s of %s on GPUs", c.colls[j].name, typeName(c.types[i]))
	}
	return nil
}

// parseTimeout reads seconds, as nccl-tests, or a duration.
func parseTimeout(s string) (time.Duration, error) {
	if n, err := strconv.Atoi(s); err == nil {
		s = fmt.Sprint(n, "s")
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is no time above 0", s)
	}
	return d, nil
}

func usage(fs *flag.FlagSet, name, algo string, w io.Writer) {
	what := "collectives"
	if algo != "" {
		what += " by the algorithm " + algo
	}
	fmt.Fprintf(w, `usage: %[1]s [flags]

Measures and checks weft's %[2]s, with the flags and the table of nccl-tests:

	weft run -n 4 -- %[1]s -coll all -e 1M
	mpirun -np 2 %[1]s -peer mpi -json result.jsonl

The exit status is not 0 if any result is wrong or anything fails.

`, name, what)
	fs.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Usage, "same as") {
			return
		}
		typ, use := flag.UnquoteUsage(f)
		def := ""
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			def = " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  -%s %s\n    \t%s%s\n", f.Name, typ, use, def)
	})
}
