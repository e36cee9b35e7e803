package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/internal/cpulist"
)

const infoUsage = `usage: weft info

Joins the job that it is started in and prints, on rank 0, the ranks, the nodes
they are on, by what transport each two ranks reach each other and why, the GPUs
that they have, and, of some calls that it makes and checks, what passed between them:

	mpirun -np 4 weft info
	weft run -n 4 -- weft info

With WEFT_FAULTS=seed=1,rate=0.05 some of it fails, on the software fabric. Of the
messages from one rank to another it then says

	messages   sent, and payload bytes in them
	reports    attempts that the fabric said failed, or did not say the end of
	retries    attempts that were made once more
	alias      messages and credits that went by a second id of the other's memory
	pointer    through a pointer to it
	channel    over the control channel
	replaced   cells that are not used any more, because something may still come there
	renewals   times that it made memory for more cells, for messages from the other
	by header  messages from the other that it had to send again
	time lost  on messages after their first report
`

// infoCommand prints what the library finds when a job comes together.
func infoCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("weft info", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(flags.Output(), infoUsage) }
	if slices.Contains(args, "-help") || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		fmt.Fprint(stdout, infoUsage)
		return 0
	}
	if err := flags.Parse(args); err != nil {
		return statusUsage
	}
	if flags.NArg() > 0 {
		flags.Usage()
		return statusUsage
	}
	ctx := context.Background()
	c, err := comm.Init(ctx)
	if err != nil {
		var far *comm.UnreachableError
		if errors.As(err, &far) && far.Rank == 0 {
			printRanks(stdout, far.Ranks)
		}
		fmt.Fprintln(stderr, err)
		return statusFailure
	}
	err = info(ctx, c, stdout)
	if err != nil {
		c.Abort(err)
	}
	if err = errors.Join(err, c.Close()); err != nil {
		fmt.Fprintln(stderr, err)
		return statusFailure
	}
	return 0
}

// info gathers every rank's routes, and what it did in some calls, and prints all on
// rank 0.
func info(ctx context.Context, c *comm.Communicator, w io.Writer) error {
	calls, err := try(ctx, c)
	if err != nil {
		return err
	}
	stats, err := allStats(ctx, c)
	if err != nil {
		return err
	}
	d, none := c.OpenDevice(ctx)
	if err := c.AsyncErr(); err != nil {
		return err
	}
	var mine []string
	for p := range c.Size() {
		r := c.Route(p)
		mine = append(mine, fmt.Sprintf("%s\t%s", r.Transport, r.Reason))
	}
	all, err := gatherText(ctx, c, strings.Join(mine, "\n"))
	if err != nil || c.Rank() != 0 {
		return err
	}

	fmt.Fprintf(w, "ranks: %d, nodes: %d, started by: %s\n\n", c.Size(), len(c.Nodes()), c.Source())
	peers := make([]bootstrap.Peer, c.Size())
	for r := range peers {
		peers[r] = c.Describe(r)
	}
	printRanks(w, peers)

	// Pairs with the same route go together.
	type route struct{ from, to string } // as the two ends see it
	pairs := map[route][]string{}
	var order []route
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			k := route{strings.Split(all[i], "\n")[j], strings.Split(all[j], "\n")[i]}
			if pairs[k] == nil {
				order = append(order, k)
			}
			pairs[k] = append(pairs[k], fmt.Sprintf("%d-%d", i, j))
		}
	}
	for _, k := range order {
		transport, reason, _ := strings.Cut(k.from, "\t")
		if k.to != k.from {
			reason += "; the other way: " + strings.ReplaceAll(k.to, "\t", ", ")
		}
		fmt.Fprintf(w, "\n%s (%s)\n  ranks %s\n", transport, reason, strings.Join(pairs[k], " "))
	}

	policy := "by spinning, then yielding, then sleeping"
	if c.WaitPolicy().Oversubscribed {
		policy = "by yielding, then sleeping: some ranks share a processor"
	}
	layout, _ := c.Lanes()
	fmt.Fprintf(w, "\nranks wait %s\nmemory of a communicator of this size: %d KiB per rank\na call without a deadline of its own ends after %v\n",
		policy, layout.Bytes()>>10, c.Timeout())
	printDevices(w, c.Size(), d, none)
	if c.Size() > 1 {
		fmt.Fprintf(w, "\nwhat passed between the ranks in %d calls:\n", calls)
		printStats(w, stats)
	}
	return nil
}

// printDevices prints which GPUs the ranks have, or why there are none.
func printDevices(w io.Writer, ranks int, d *comm.Device, none error) {
	if none != nil {
		var op *comm.OpError
		if errors.As(none, &op) {
			none = op.Err
		}
		fmt.Fprintf(w, "\nno devices: %v\n", none)
		return
	}
	fmt.Fprintf(w, "\ndevices (CUDA %d.%d, %s):\n", d.Context().Driver().Version()/1000, d.Context().Driver().Version()%1000/10, d.Context().Driver().Library())
	for r := range ranks {
		fmt.Fprintf(w, "  rank %d: %s\n", r, d.Name(r))
	}
	fmt.Fprintf(w, "memory of a communicator of this size: %d KiB per rank on its device, for %d lanes\n", d.SegmentBytes()>>10, d.Lanes())
}

// printRanks prints where the ranks are. Nodes are numbered as they come.
func printRanks(w io.Writer, peers []bootstrap.Peer) {
	node, local := map[string]int{}, map[string]int{}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "rank\tnode\tlocal rank\thost\tpid\tcpus\n")
	for r, p := range peers {
		if _, ok := node[p.Node]; !ok {
			node[p.Node] = len(node)
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%s\t%d\t%s\n", r, node[p.Node], local[p.Node], p.Host, p.PID, cpulist.Format(p.CPUs))
		local[p.Node]++
	}
	tw.Flush()
}

// gatherText returns every rank's text.
func gatherText(ctx context.Context, c *comm.Communicator, text string) ([]string, error) {
	lengths := make([]int, c.Size())
	if err := collectives.AllGather(ctx, c, lengths, []int{len(text)}); err != nil {
		return nil, err
	}
	most := slices.Max(lengths)
	buf := make([]uint8, most*c.Size())
	own := make([]uint8, most)
	copy(own, text)
	if err := collectives.AllGather(ctx, c, buf, own); err != nil {
		return nil, err
	}
	texts := make([]string, c.Size())
	for r, n := range lengths {
		texts[r] = string(buf[r*most : r*most+n])
	}
	return texts, nil
}
