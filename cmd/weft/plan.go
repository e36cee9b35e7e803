package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weft-go/weft/collectives/plan"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

const planText = `Shows how a collective is done: the steps of each rank, as text or as a picture,
and what the cost model says of the algorithms. No rank is started.

	weft plan -list
	weft plan -coll allreduce -algo ring -n 5
	weft plan -coll allreduce -algo tree -n 6 -count 12 -svg tree.svg
	weft plan -coll allreduce -n 8 -cost
	weft plan -coll alltoall -algo bruck -n 7 -verify

`

// planFlags are the arguments of "weft plan".
type planFlags struct {
	coll, algo, typ, rank, svg, model, allow string
	ranks, count, root, message, cells       int
	nodes                                    int
	list, cost, verify, byStep               bool
	multicast, fabric                        bool

	given []string // the names of those on the command line, sorted
}

func (f *planFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.coll, "coll", "", "the `COLLECTIVE`: "+collectiveNames())
	fs.StringVar(&f.algo, "algo", "", "its `ALGORITHM` (default: the one that the model finds the fastest)")
	fs.IntVar(&f.ranks, "n", 0, "among `N` ranks")
	fs.IntVar(&f.count, "count", 0, "`ELEMENTS` per rank, or per block where there are blocks for all ranks (default: N, or 1 per block)")
	fs.StringVar(&f.typ, "type", "float32", "`TYPE` of the elements")
	fs.IntVar(&f.root, "root", 0, "`RANK` that has or gets everything, of broadcast, reduce, gather and scatter")
	fs.StringVar(&f.rank, "rank", "all", "print the steps of this `RANK` only")
	fs.IntVar(&f.message, "message", 0, "largest message, in `BYTES` (default: as memory of one node has it)")
	fs.IntVar(&f.cells, "cells", 0, "`MESSAGES` that a lane holds (default: as memory of one node has it)")
	fs.StringVar(&f.svg, "svg", "", "draw all ranks into `FILE`, - for the standard output")
	fs.BoolVar(&f.byStep, "by-step", false, "draw each step as long as any other")
	fs.BoolVar(&f.cost, "cost", false, "print the times of all algorithms by the model; * is the one chosen")
	fs.StringVar(&f.model, "model", "", "read the cost model from `FILE`")
	fs.IntVar(&f.nodes, "nodes", 1, "spread the ranks over so many `NODES`, for the model")
	fs.StringVar(&f.allow, "allow", "", "choose only from `LISTS`, as ring,tree;broadcast:^chain")
	fs.BoolVar(&f.multicast, "multicast", false, "choose from algorithms that need multicast memory, too")
	fs.BoolVar(&f.fabric, "fabric", false, "a compute fabric with multicast memory joins the ranks of a node")
	fs.BoolVar(&f.verify, "verify", false, "prove that the schedules are right, in two calls one after the other")
	fs.BoolVar(&f.list, "list", false, "list the algorithms, of -coll or of all")
}

// collectiveNames is like "allreduce, reduce or barrier".
func collectiveNames() string {
	var names []string
	for _, c := range plan.Collectives() {
		names = append(names, c.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// A planTask is what "weft plan" can be asked to do, by a flag, and the flags that
// count then.
type planTask struct {
	flag  string // none: print the steps
	flags []string
}

var planTasks = []planTask{
	{"list", []string{"coll"}},
	{"cost", []string{"coll", "n", "type", "root", "message", "cells", "model", "nodes", "allow", "multicast", "fabric"}},
	{"verify", []string{"coll", "algo", "n", "count", "type", "root", "message", "cells"}},
	{"svg", []string{"coll", "algo", "n", "count", "type", "root", "message", "cells", "model", "nodes", "by-step"}},
	{"", []string{"coll", "algo", "n", "count", "type", "root", "message", "cells", "rank"}},
}

// choiceFlags count as well where no algorithm is given.
var choiceFlags = []string{"model", "nodes", "allow", "multicast", "fabric"}

// checkUse refuses flags that contradict each other or would do nothing.
func (f *planFlags) checkUse() error {
	if f.svg == "" && slices.Contains(f.given, "svg") {
		return errors.New("-svg must name a file, or - for the standard output")
	}
	asked := map[string]bool{"list": f.list, "cost": f.cost, "verify": f.verify, "svg": f.svg != "", "": true}
	i := slices.IndexFunc(planTasks, func(t planTask) bool { return asked[t.flag] })
	task := planTasks[i]
	chooses := task.flag != "list" && f.algo == ""
	for _, name := range f.given {
		_, isTask := asked[name]
		chooser := slices.Contains(choiceFlags, name)
		switch {
		case name == task.flag, isTask && !asked[name], slices.Contains(task.flags, name), chooses && chooser:
		case isTask:
			return fmt.Errorf("-%s and -%s: one at a time", task.flag, name)
		case chooser && task.flag != "list":
			return fmt.Errorf("-%s does nothing, as -algo says which algorithm", name)
		case task.flag == "": // all others count
			return fmt.Errorf("-%s does nothing without -svg", name)
		default:
			return fmt.Errorf("-%s does nothing with -%s", name, task.flag)
		}
	}
	return nil
}

// A planRequest is planFlags understood.
type planRequest struct {
	planFlags
	collective plan.Collective
	shape      plan.Shape
	oneRank    int // −1: all
	topology   plan.Topology
	costs      *plan.Model
	options    plan.TableOptions
}

// planCommand implements "weft plan".
func planCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlagSet("weft plan", "weft plan -coll COLLECTIVE -n N [flags]", planText)
	var f planFlags
	f.register(fs)
	if status, done := parse(fs, args, stdout, stderr); done {
		return status
	}
	if fs.NArg() > 0 {
		return misuse(fs, stderr, fmt.Sprintf("%q is not a flag", fs.Arg(0)))
	}
	fs.Visit(func(x *flag.Flag) { f.given = append(f.given, x.Name) })
	r, err := f.understand()
	if err != nil {
		return misuse(fs, stderr, strings.TrimPrefix(err.Error(), "plan: "))
	}
	if err := r.run(stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", fs.Name(), err)
		return statusFailure
	}
	return 0
}

// understand checks the flags.
func (f planFlags) understand() (*planRequest, error) {
	f.algo = strings.ToLower(strings.TrimSpace(f.algo))
	if err := f.checkUse(); err != nil {
		return nil, err
	}
	r := &planRequest{planFlags: f, oneRank: -1}
	if f.coll == "" {
		if f.list {
			return r, nil
		}
		return nil, errors.New("the collective, -coll, must be given")
	}
	var err error
	if r.collective, err = plan.ParseCollective(f.coll); err != nil || f.list {
		return r, err
	}
	if f.ranks <= 0 || f.ranks > plan.MaxRanks {
		return nil, fmt.Errorf("the number of ranks, -n, must be given, from 1 to %d", plan.MaxRanks)
	}
	if f.nodes <= 0 || f.nodes > f.ranks {
		return nil, errors.New("the number of nodes must be from 1 to that of the ranks")
	}
	if f.nodes > 1 {
		r.topology = plan.Spread(f.ranks, f.nodes)
	}
	if r.rank != "all" {
		if r.oneRank, err = strconv.Atoi(f.rank); err != nil || r.oneRank < 0 || r.oneRank >= f.ranks {
			return nil, fmt.Errorf("-rank %s: must be all, or from 0 to %d", f.rank, f.ranks-1)
		}
	}
	if err := r.understandShape(); err != nil {
		return nil, err
	}
	if r.costs, err = readModel(f.model); err != nil {
		return nil, err
	}
	spec, err := plan.ParseSpec(f.allow)
	if err != nil {
		return nil, err
	}
	multicast := plan.NoMulticast
	switch {
	case f.fabric:
		multicast, r.costs = plan.FabricMulticast, r.costs.OnFabric()
		if !spec.Restricts(r.shape.Collective) {
			multicast = multicast.Among(r.shape.Ranks)
		}
	case f.multicast:
		multicast = plan.MappedMulticast
	}
	r.options = spec.Options(r.shape.Collective, multicast) // as the library chooses
	r.options.Topology = r.topology
	return r, r.understandAlgorithm()
}

func (r *planRequest) understandShape() error {
	typ, err := kernels.ParseType(r.typ)
	if err != nil {
		return err
	}
	layout := progress.DefaultLayout(r.ranks)
	r.shape = plan.Shape{Collective: r.collective, Ranks: r.ranks, Count: r.count, ElemBytes: typ.Size(), Root: r.root,
		MessageBytes: layout.MessageBytes(), Cells: layout.Cells}
	if slices.Contains(r.given, "message") {
		r.shape.MessageBytes = r.message
	}
	if slices.Contains(r.given, "cells") {
		r.shape.Cells = r.cells
	}
	if !slices.Contains(r.given, "count") {
		switch r.collective {
		case plan.Barrier:
			r.shape.Count = 0
		case plan.AllGather, plan.AllToAll, plan.Gather, plan.Scatter, plan.ReduceScatter:
			r.shape.Count = 1
		default:
			r.shape.Count = r.ranks
		}
	}
	return nil
}

// understandAlgorithm finds the algorithm, and that the shape is one.
func (r *planRequest) understandAlgorithm() error {
	known := plan.Algorithms(r.collective)
	if r.algo == "" {
		// Any will say what is wrong with the shape.
		if _, err := plan.Build(known[0], r.shape, 0); err != nil {
			return err
		}
		t, err := plan.NewTable(r.costs, r.shape, r.options)
		if err != nil {
			return err
		}
		r.algo = t.Choose(r.shape.Count * r.shape.ElemBytes)
	}
	if _, ok := plan.Lookup(r.collective, r.algo); !ok {
		return fmt.Errorf("unknown algorithm %q for %s, known are %s", r.algo, r.collective, strings.Join(known, ", "))
	}
	_, err := plan.Build(r.algo, r.shape, 0)
	return err
}

func readModel(file string) (*plan.Model, error) {
	if file == "" {
		return plan.DefaultModel(), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return plan.ParseModel(data)
}

// run does what was asked for; without a special wish it prints the steps.
func (r *planRequest) run(w io.Writer) error {
	switch {
	case r.list:
		return r.printList(w)
	case r.cost:
		return r.printCost(w)
	case r.verify:
		return r.runVerify(w)
	case r.svg != "":
		return r.draw(w)
	}
	return r.printSteps(w)
}

// printList prints the algorithms: names, then where each is from and in which
// order it reduces.
func (r *planRequest) printList(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range plan.Collectives() {
		if r.collective != 0 && r.collective != c {
			continue
		}
		fmt.Fprintf(tw, "%s\n", c)
		for _, name := range plan.Algorithms(c) {
			a, _ := plan.Lookup(c, name)
			fmt.Fprintf(tw, "  %s\tsource: %s\n", name, a.Source)
			if a.Order != "" {
				fmt.Fprintf(tw, "\torder: %s\n", a.Order)
			}
			if a.Multicast {
				fmt.Fprintf(tw, "\tneeds multicast memory\n")
			}
		}
	}
	return tw.Flush()
}

func (r *planRequest) printSteps(w io.Writer) error {
	from, to := r.oneRank, r.oneRank+1
	if r.oneRank < 0 {
		from, to = 0, r.ranks
	}
	for rank := from; rank < to; rank++ {
		s, err := plan.Build(r.algo, r.shape, rank)
		if err != nil {
			return err
		}
		if rank > from {
			fmt.Fprintln(w)
		}
		if err := plan.Print(w, s); err != nil {
			return err
		}
	}
	return nil
}

// all builds the schedules of all ranks.
func (r *planRequest) all() ([]*plan.Schedule, error) {
	schedules := make([]*plan.Schedule, r.ranks)
	for rank := range schedules {
		var err error
		if schedules[rank], err = plan.Build(r.algo, r.shape, rank); err != nil {
			return nil, err
		}
	}
	return schedules, nil
}

func (r *planRequest) draw(w io.Writer) error {
	schedules, err := r.all()
	if err != nil {
		return err
	}
	o := plan.DrawOptions{Model: r.costs, Topology: r.topology, ByStep: r.byStep}
	if r.svg == "-" {
		return plan.SVG(w, schedules, o)
	}
	file, err := os.Create(r.svg)
	if err != nil {
		return err
	}
	return errors.Join(plan.SVG(file, schedules, o), file.Close())
}

// runVerify proves that the schedules of all ranks are right, also when a second
// call follows the first.
func (r *planRequest) runVerify(w io.Writer) error {
	schedules, err := r.all()
	if err != nil {
		return err
	}
	if err := plan.VerifyCalls(2, schedules); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %v: verified\n", r.algo, r.shape)
	return err
}

// printCost prints the model's times against sizes.
func (r *planRequest) printCost(w io.Writer) error {
	table, err := plan.NewTable(r.costs, r.shape, r.options)
	if err != nil {
		return err
	}
	names := plan.Algorithms(r.collective)
	where := "one node"
	if r.nodes > 1 {
		where = fmt.Sprintf("%d nodes", r.nodes)
	}
	fmt.Fprintf(w, "%s on %s, messages of %d bytes, %d cells; * chosen\n\n", table, where, r.shape.MessageBytes, r.shape.Cells)

	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "size\t%s \t\n", strings.Join(names, " \t"))
	for _, count := range r.costCounts() {
		s := r.shape
		s.Count = count
		bytes := count * s.ElemBytes
		fmt.Fprintf(tw, "%s\t", plan.FormatBytes(bytes))
		for _, name := range names {
			mark := " "
			if name == table.Choose(bytes) {
				mark = "*"
			}
			text := "-"
			if ns, err := r.costs.Estimate(name, s, r.topology); err == nil {
				text = plan.FormatNs(ns)
			}
			fmt.Fprintf(tw, "%s%s\t", text, mark)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// costCounts are the sizes of the table: powers of 4, up to a quarter of a GiB.
func (r *planRequest) costCounts() []int {
	if r.collective == plan.Barrier {
		return []int{0}
	}
	var counts []int
	for count := 1; count*r.shape.ElemBytes <= 1<<28; count *= 4 {
		counts = append(counts, count)
	}
	return counts
}
