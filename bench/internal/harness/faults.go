package harness

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/weft-go/weft/collectives"
	"github.com/weft-go/weft/comm"
	"github.com/weft-go/weft/kernels"
	engine "github.com/weft-go/weft/transport/progress"
)

// transportStats are what this rank's transports did with all peers so far.
func transportStats(c *comm.Communicator) (sum engine.PeerStats) {
	stats, err := c.Stats()
	if err != nil {
		return sum // the collective has failed, and says why
	}
	for _, s := range stats {
		sum.Add(s)
	}
	return sum
}

// events is how often the transports of all ranks reported an error since before, and what
// was done. It counts for what is being measured.
func (s *job) events(ctx context.Context, before engine.PeerStats) (engine.PeerStats, error) {
	of := func(s *engine.PeerStats) []*uint64 {
		return []*uint64{
			&s.Reports, &s.Retries, &s.Reroutes.Alias, &s.Reroutes.Pointer, &s.Reroutes.Channel, &s.Replaced, &s.Renewals,
		}
	}
	now := transportStats(s.c)
	was, sum := of(&before), []uint64{uint64(now.Lost - before.Lost)}
	for i, n := range of(&now) {
		sum = append(sum, *n-*was[i])
	}
	err := collectives.AllReduce(ctx, s.c, sum, sum, kernels.Sum)
	all := engine.PeerStats{Lost: time.Duration(sum[0])}
	for i, n := range of(&all) {
		*n = sum[i+1]
	}
	total := s.faults[s.coll.name]
	total.Add(all)
	s.faults[s.coll.name] = total
	return all, err
}

// printFaults prints what the fabric reported in all rows of a sheet, if it did.
func printFaults(w io.Writer, s engine.PeerStats) {
	if s.Reports == 0 && s.Reroutes.All() == 0 {
		return
	}
	fmt.Fprintf(w, "# Reports of all ranks : %d, %d retries, %d reroutes (%d by alias, %d by pointer), %d cells replaced, %d renewals, %v lost\n#\n",
		s.Reports, s.Retries, s.Reroutes.All(), s.Reroutes.Alias, s.Reroutes.Pointer, s.Replaced, s.Renewals, s.Lost.Round(time.Microsecond))
}
