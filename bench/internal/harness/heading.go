package harness

import (
	"fmt"
	"os"

	"github.com/weft-go/weft/internal/cpulist"
)

// heading prints what is said before the rows of a collective, and before the
// first one what all have in common.
func (s *job) heading(sh *sheet) {
	w, cfg, coll, first := s.print, s.cfg, sh.coll, sh == s.sheets[0]
	sh.headed = true
	if first {
		fmt.Fprintf(w, "# weft %s %s, %s\n", s.program.name, s.env.Revision, s.env.Go)
	}
	fmt.Fprintf(w, "# Collective test starting: %s\n", coll.title)
	step := fmt.Sprintf("%d(bytes)", cfg.sizes.step)
	if cfg.sizes.factor > 1 {
		step = fmt.Sprintf("%g(factor)", cfg.sizes.factor)
	}
	iters := fmt.Sprint(cfg.iters)
	if cfg.iters == 0 {
		iters = fmt.Sprintf("for %v", cfg.budget)
	}
	gpus, formName := 0, string(cfg.form)
	if s.gpu != nil {
		gpus = 1
	}
	if cfg.form == graph {
		formName = fmt.Sprintf("graphs of %d calls", graphCalls)
	}
	fmt.Fprintf(w, "# nThread 1 nGpus %d minBytes %d maxBytes %d step: %s warmup iters: %d iters: %s validation: %d\n",
		gpus, cfg.sizes.min, cfg.sizes.max, step, cfg.warmup, iters, cfg.check)
	buffers := "rotate beyond the cache"
	switch {
	case cfg.warm:
		buffers = "stay in the cache (-warm)"
	case s.gpu != nil:
		buffers = fmt.Sprintf("rotate, %d at most", graphCalls*mostGraphs)
	case cfg.form == persistent:
		buffers = fmt.Sprintf("rotate, %d at most", mostPersistent)
	}
	root := ""
	if coll.rooted {
		root = ", root moves on with every call"
		if cfg.root >= 0 {
			root = fmt.Sprintf(", root %d in every call: ranks may run ahead", cfg.root)
		}
	}
	fmt.Fprintf(w, "# form: %s, memory: %s, buffers %s%s, transport: %s\n", formName, cfg.memory, buffers, root, s.transport())
	if cfg.algo != "" {
		fmt.Fprintf(w, "# algorithm asked for: %s; the column algo says what ran\n", cfg.algo)
	}
	if cfg.cycles > 1 {
		fmt.Fprintf(w, "# run cycles: %d; a time is the median of their medians, a ratio that of their ratios\n", cfg.cycles)
	}
	if s.peer != nil {
		how := "blocks take turns with ours"
		if !s.peer.runs() {
			how = "from another run"
		}
		fmt.Fprintf(w, "# peer: %s, %s; ratio: its time by ours, above 1 weft is faster\n", s.peer.name, how)
	}
	if first {
		s.devices()
	}
	s.table().heading(s.peerName())
}

// table is where rows are printed.
func (s *job) table() table {
	return table{w: s.print, peer: s.peer != nil, ratioSpread: s.peer.runs() && s.cfg.cycles > 1}
}

func (s *job) peerName() string {
	if s.peer == nil {
		return ""
	}
	return s.peer.name
}

// devices lists the ranks.
func (s *job) devices() {
	fmt.Fprintf(s.print, "#\n# Using devices\n")
	host, _ := os.Hostname()
	for r := range s.ranks {
		d := s.c.Describe(r)
		if d.Host != "" {
			host = d.Host
		}
		device := s.env.Machine
		if s.gpu != nil {
			device = s.gpuNames[r]
		}
		fmt.Fprintf(s.print, "#  Rank %2d Group  0 Pid %6d on %10s device  0 [cpu %s] %s\n", r, d.PID, host, cpulist.Format(d.CPUs), device)
	}
}
