package harness

import (
	"math"
	"slices"
)

// summary is what is told of the samples of a row.
type summary struct {
	median, mean, p99 float64
	spread            float64 // ±, as a part of the median
}

// summarize takes the samples of all blocks, each of which has some.
func summarize(blocks [][]float64) summary {
	all := slices.Concat(blocks...)
	if len(all) == 0 {
		return summary{}
	}
	slices.Sort(all)
	s := summary{median: quantile(all, 0.5), p99: nearest(all, 0.99)}
	for _, x := range all {
		s.mean += x / float64(len(all))
	}
	medians := make([]float64, 0, len(blocks))
	for _, b := range blocks {
		sorted := slices.Sorted(slices.Values(b))
		medians = append(medians, quantile(sorted, 0.5))
	}
	if s.median > 0 {
		middle := quantile(all, 0.75) - quantile(all, 0.25)
		s.spread = max(middle, slices.Max(medians)-slices.Min(medians)) / 2 / s.median
	}
	return s
}

// quantile interpolates between sorted samples.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	f := at - float64(i)
	return sorted[i]*(1-f) + sorted[i+1]*f
}

// nearest is the smallest sample that at least a part q of them do not exceed.
func nearest(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}
