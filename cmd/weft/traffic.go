package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// trafficSizes are the elements of 4 bytes of the calls that are tried: one message to
// each rank, one that fills a cell about, and many.
var trafficSizes = []int{1, 10_000, 200_000}

// trafficRounds is how often each call is made.
const trafficRounds = 10

// try makes some calls, checks what comes of them, and returns how many it made.
func try(ctx context.Context, c *comm.Communicator) (int, error) {
	calls := 0
	for _, count := range trafficSizes {
		sums, block := make([]int32, count), max(count/c.Size(), 1)
		dst, src := make([]int32, block*c.Size()), make([]int32, block*c.Size())
		for round := range trafficRounds {
			for i := range sums {
				sums[i] = int32(c.Rank() + i + round)
			}
			if err := collectives.AllReduce(ctx, c, sums, sums, kernels.Sum); err != nil {
				return calls, err
			}
			for i := range sums {
				if n := c.Size(); sums[i] != int32(n*(n-1)/2+n*(i+round)) {
					return calls, fmt.Errorf("AllReduce of %d: element %d is %d", count, i, sums[i])
				}
			}
			for i := range src {
				src[i] = int32(c.Rank()*1000 + i + round)
			}
			if err := collectives.AllToAll(ctx, c, dst, src); err != nil {
				return calls, err
			}
			for i := range dst {
				if from := i / block; dst[i] != int32(from*1000+c.Rank()*block+i%block+round) {
					return calls, fmt.Errorf("AllToAll of %d: element %d is %d", block, i, dst[i])
				}
			}
			calls += 2
		}
	}
	return calls, nil
}

// allStats returns what every rank did with every other so far.
func allStats(ctx context.Context, c *comm.Communicator) ([][]progress.PeerStats, error) {
	mine, err := c.Stats()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	texts, err := gatherText(ctx, c, string(text))
	if err != nil {
		return nil, err
	}
	all := make([][]progress.PeerStats, len(texts))
	for r, text := range texts {
		if err := json.Unmarshal([]byte(text), &all[r]); err != nil {
			return nil, fmt.Errorf("counts of rank %d: %w", r, err)
		}
	}
	return all, nil
}

// maxPairs is the number of ranks up to which each pair has a line.
const maxPairs = 8

// printStats prints what ranks did with each other. What went to all at once, by
// multicast memory, is in the entry of the rank itself.
func printStats(w io.Writer, all [][]progress.PeerStats) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "from\tto\tmessages\tbytes\treports\tretries\talias\tpointer\tchannel\treplaced\trenewals\tby header\ttime lost")
	line := func(from int, to string, s progress.PeerStats) {
		fmt.Fprintf(tw, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\n", from, to,
			s.Messages, s.Bytes, s.Reports, s.Retries, s.Reroutes.Alias, s.Reroutes.Pointer, s.Reroutes.Channel, s.Replaced, s.Renewals, s.ByHeader, s.Lost)
	}
	for from, peers := range all {
		if len(all) > maxPairs {
			var sum progress.PeerStats
			for _, s := range peers {
				sum.Add(s)
			}
			line(from, "others", sum)
			continue
		}
		for to, s := range peers {
			switch {
			case to != from:
				line(from, strconv.Itoa(to), s)
			case s != progress.PeerStats{}:
				line(from, "all", s)
			}
		}
	}
	tw.Flush()
}
