package record

import (
	"math"
	"slices"
)

// A Key is what two lines have in common that tell of the same.
type Key struct {
	Library, Coll, Memory, Form, Device, Type, Op string
	Ranks, Root                                   int
	Bytes                                         int64
	InPlace, Warm                                 bool
}

// Key returns the line's.
func (l *Line) Key() Key {
	return Key{l.Library, l.Coll, l.Memory, l.Form, l.Device, l.Type, l.Op, l.Ranks, l.Root, l.Bytes, l.InPlace, l.Warm}
}

// Merge makes one line of those of several cycles, which have the same key; nil
// if there are none. Its time is the median of the cycles' medians, so that
// cycles during which the machine was slower do not count as long as they are
// the fewer; its spread reaches to all of them. Ratios are merged likewise: each
// is of two times that were measured together, so they are steadier than
// times. A line counts as one cycle, even if it is itself of several.
func Merge(cycles []*Line) *Line {
	if len(cycles) == 0 {
		return nil
	}
	l := *cycles[0]
	l.Cycles = len(cycles)
	l.CycleUS = each(cycles, func(l *Line) *float64 { return &l.P50US })
	l.P50US = median(l.CycleUS)
	l.TimeUS = l.P50US
	l.SpreadPct = max(farthestPct(l.CycleUS), median(each(cycles, func(l *Line) *float64 { return &l.SpreadPct })))
	l.P99US = median(each(cycles, func(l *Line) *float64 { return &l.P99US }))
	if l.P50US > 0 { // bandwidths are in proportion to the speed
		faster := cycles[0].P50US / l.P50US
		l.AlgBW *= faster
		if l.BusBW != nil {
			l.BusBW = ref(*l.BusBW * faster)
		}
	}
	l.MeanUS, l.Batches, l.Reports, l.Retries, l.Reroutes, l.ByAlias, l.ByPointer = 0, 0, 0, 0, 0, 0, 0
	for i, c := range cycles {
		l.MeanUS += c.MeanUS / float64(len(cycles))
		l.Batches += c.Batches
		l.Reports += c.Reports
		l.Retries += c.Retries
		l.Reroutes += c.Reroutes
		l.ByAlias += c.ByAlias
		l.ByPointer += c.ByPointer
		if i > 0 && l.Wrong != nil && c.Wrong != nil {
			l.Wrong = ref(*l.Wrong + *c.Wrong)
		}
	}
	for _, value := range []func(*Line) **float64{
		func(l *Line) **float64 { return &l.CPUPct }, func(l *Line) **float64 { return &l.WaitPct },
		func(l *Line) **float64 { return &l.Yields }, func(l *Line) **float64 { return &l.Sleeps },
		func(l *Line) **float64 { return &l.PeerCPUPct },
	} {
		*value(&l) = mean(each(cycles, func(l *Line) *float64 { return *value(l) }))
	}
	l.PeerCycleUS, l.RatioSpreadPct = each(cycles, func(l *Line) *float64 { return l.PeerP50US }), nil
	within := each(cycles, func(l *Line) *float64 { return l.PeerSpreadPct })
	ratios := each(cycles, func(l *Line) *float64 { return l.Ratio })
	if l.PeerCycleUS == nil || within == nil || ratios == nil {
		l.PeerP50US, l.PeerSpreadPct, l.PeerCycleUS, l.Ratio = nil, nil, nil, nil
		return &l
	}
	l.PeerP50US = ref(median(l.PeerCycleUS))
	l.PeerSpreadPct = ref(max(farthestPct(l.PeerCycleUS), median(within)))
	l.Ratio = ref(median(ratios))
	if len(ratios) > 1 { // one alone has none
		l.RatioSpreadPct = ref(farthestPct(ratios))
	}
	return &l
}

func ref[T any](v T) *T { return &v }

// each returns a value of every line, nil if one has none.
func each(lines []*Line, value func(*Line) *float64) []float64 {
	values := make([]float64, 0, len(lines))
	for _, l := range lines {
		v := value(l)
		if v == nil {
			return nil
		}
		values = append(values, *v)
	}
	return values
}

// mean is nil if there are no values.
func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return ref(sum / float64(len(values)))
}

// median takes at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// farthestPct is how far the farthest value is from the median, in percent of that.
func farthestPct(values []float64) float64 {
	m := median(values)
	if m <= 0 {
		return 0
	}
	return 100 * math.Max(slices.Max(values)-m, m-slices.Min(values)) / m
}
