package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlan(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.json")
	require.NoError(t, os.WriteFile(model, []byte(`{"links":{"shm":{"latencyNs":5000},"net":{}}}`), 0o600))
	broken := filepath.Join(dir, "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"links":`), 0o600))
	for _, tc := range []struct {
		args   string
		status int
		want   []string // in the output, or in the complaint
	}{
		{"-h", 0, []string{"usage: weft plan", "-coll COLLECTIVE"}},
		{"-list", 0, []string{"allreduce", "ring", "Patarasuk", "alltoall", "bruck", "dissemination", "source: ", "order: ", "needs multicast memory"}},
		{"-list -coll reduce", 0, []string{"reduce", "tree"}},
		{"-coll allreduce -algo ring -n 5", 0, []string{"ring, rank 0: allreduce of 5 elements of 4 bytes on 5 ranks", "rank 4", "put to 2 of send[0:1]"}},
		{"-coll allreduce -algo ring -n 3 -rank 2 -count 4096 -type float64 -message 1024 -cells 2", 0,
			[]string{"ring, rank 2: allreduce of 4096 elements of 8 bytes on 3 ranks"}},
		{"-coll AllReduce -n 4", 0, []string{"allreduce of 4 elements"}},
		{"-coll broadcast -algo tree -n 6 -root 3 -rank 3", 0, []string{"tree, rank 3", "root 3"}},
		{"-coll barrier -n 3", 0, []string{"barrier"}},
		{"-coll allreduce -algo halving -n 5 -verify", 0, []string{"halving: allreduce of 5 elements of 4 bytes on 5 ranks: verified\n"}},
		{"-coll barrier -algo dissemination -n 9 -verify", 0, []string{"verified"}},
		{"-coll allreduce -n 4 -cost", 0, []string{"allreduce, 4 ranks", "on one node", "multimem", "256 MiB", "*"}},
		{"-coll alltoall -n 4 -cost -nodes 2 -allow alltoall:pairwise", 0, []string{"alltoall, 4 ranks: pairwise on 2 nodes"}},
		{"-coll barrier -n 4 -cost -model " + model, 0, []string{"barrier, 4 ranks", "5.00 µs"}},
		{"-coll allreduce -n 4 -fabric -cost", 0, []string{"KiB <= multimem on one node"}},
		{"-coll broadcast -n 3 -count 100000 -fabric -rank 1", 0, []string{"multimem, rank 1: broadcast", "in multicast memory 0 of its own and boards of 2 cells of 50000", "copy recv[0:50000] ← board 0[0:50000]"}},
		{"-coll allreduce -algo tree -n 6 -svg -", 0, []string{"<svg ", "rank 5", "</svg>"}},

		{"-list -coll exscan", 0, []string{"exscan", "chain", "doubling", "in rank order"}},
		{"-coll gather -n 6 -root 2 -algo tree -rank 4", 0, []string{"tree, rank 4: gather of 1 elements of 4 bytes on 6 ranks, root 2"}},
		{"-coll scatter -n 7 -root 6 -algo Tree -verify", 0, []string{"tree: scatter of 1 elements of 4 bytes on 7 ranks, root 6: verified\n"}},
		{"-coll reducescatter -n 6 -algo HALVING -count 5 -verify", 0, []string{"halving: reducescatter of 5 elements of 4 bytes on 6 ranks: verified\n"}},
		{"-coll Scan -n 4 -cost", 0, []string{"scan, 4 ranks", "direct", "chain", "doubling", "256 MiB"}},
		{"-coll exscan -n 4 -rank 0", 0, []string{"direct, rank 0: exscan of 4 elements"}},
		{"-coll scan -algo doubling -n 6 -svg -", 0, []string{"<svg ", "rank 5"}},
		{"-coll allreduce -n 4 -count 0", 0, []string{"allreduce of 0 elements"}},

		{"", 2, []string{"-coll, must be given", "usage: weft plan"}},
		{"-coll allreduce", 2, []string{"-n, must be given"}},
		{"-coll allreduce -n 0", 2, []string{"-n, must be given"}},
		{"-coll allreduce -n 70000", 2, []string{"from 1 to 65536"}},
		{"-coll allgrin -n 3", 2, []string{`unknown collective "allgrin", known are allreduce`}},
		{"-coll allreduce -n 3 -algo bruck", 2, []string{`unknown algorithm "bruck" for allreduce, known are oneshot`}},
		{"-coll allreduce -n 3 -type float31", 2, []string{"float31"}},
		{"-coll broadcast -n 3 -root 3", 2, []string{"no root 3"}},
		{"-coll allreduce -n 3 -root 1", 2, []string{"root 1"}},
		{"-coll barrier -n 3 -count 1", 2, []string{"barrier has no elements"}},
		{"-coll allreduce -n 3 -rank 3", 2, []string{"-rank 3: must be all, or from 0 to 2"}},
		{"-coll allreduce -n 3 -rank some", 2, []string{"-rank some"}},
		{"-coll allreduce -n 3 -message 3", 2, []string{"holds no element"}},
		{"-coll allreduce -n 3 -cells -1", 2, []string{"needs a cell"}},
		{"-coll allreduce -n 3 -nodes 4", 2, []string{"number of nodes"}},
		{"-coll allreduce -n 3 -allow rign", 2, []string{`unknown algorithm "rign"`}},
		{"-coll allreduce -n 3 -allow allreduce:multimem", 2, []string{"nothing that can be used here"}},
		{"-coll allreduce -n 3 -model " + broken, 2, []string{"ends too early"}},
		{"-coll allreduce -n 3 -model " + dir + "/none.json", 2, []string{"none.json"}},
		{"-coll allreduce -n 3 ring", 2, []string{`"ring" is not a flag`}},
		{"-coll allreduce -n 3 -count -5", 2, []string{"negative count"}},
		{"-coll allreduce -n 3 -count -1", 2, []string{"negative count"}},
		{"-coll allreduce -n 3 -message 0", 2, []string{"holds no element"}},
		{"-coll allreduce -n 3 -cells 0", 2, []string{"needs a cell"}},
		{"-coll gather -n 3 -root -1", 2, []string{"no root -1"}},
		{"-coll scan -n 3 -root 1", 2, []string{"root 1 of a collective without one"}},
		{"-list -n 3", 2, []string{"-n does nothing with -list"}},
		{"-list -allow ring", 2, []string{"-allow does nothing with -list"}},
		{"-list -cost", 2, []string{"-list and -cost: one at a time"}},
		{"-coll allreduce -n 3 -cost -verify -svg x.svg", 2, []string{"-cost and -svg: one at a time"}},
		{"-coll allreduce -n 3 -cost -verify", 2, []string{"-cost and -verify: one at a time"}},
		{"-coll allreduce -n 3 -verify -svg x.svg", 2, []string{"-verify and -svg: one at a time"}},
		{"-coll allreduce -n 3 -cost -algo ring", 2, []string{"-algo does nothing with -cost"}},
		{"-coll allreduce -n 3 -cost -count 7", 2, []string{"-count does nothing with -cost"}},
		{"-coll allreduce -n 3 -verify -rank 1", 2, []string{"-rank does nothing with -verify"}},
		{"-coll allreduce -n 3 -svg - -rank all", 2, []string{"-rank does nothing with -svg"}},
		{"-coll allreduce -n 3 -by-step", 2, []string{"-by-step does nothing without -svg"}},
		{"-coll allreduce -n 3 -algo ring -nodes 3", 2, []string{"-nodes does nothing, as -algo says which algorithm"}},
		{"-coll allreduce -n 3 -algo ring -svg - -allow ring", 2, []string{"-allow does nothing, as -algo says which algorithm"}},
		{"-coll allreduce -n 3 -svg=", 2, []string{"-svg must name a file"}},
		{"-coll allreduce -n 3 -svg " + dir + "/none/x.svg", 1, []string{"x.svg"}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := weft(append([]string{"plan"}, strings.Fields(tc.args)...), nil, &stdout, &stderr)
			require.Equal(t, tc.status, status, stderr.String())
			said, silent := &stdout, &stderr
			if status != 0 {
				said, silent = &stderr, &stdout
				require.Contains(t, stderr.String(), "weft plan: ")
			}
			require.Empty(t, silent.String())
			for _, want := range tc.want {
				require.Contains(t, said.String(), want)
			}
		})
	}
}

func TestPlanDraws(t *testing.T) {
	for _, flags := range []string{"", " -by-step", " -nodes 2"} {
		file := filepath.Join(t.TempDir(), "picture.svg")
		var stdout, stderr bytes.Buffer
		args := "plan -coll alltoall -algo bruck -n 4" + flags + " -svg " + file
		require.Zero(t, weft(strings.Fields(args), nil, &stdout, &stderr), stderr.String())
		require.Empty(t, stdout.String())
		f, err := os.Open(file)
		require.NoError(t, err)
		d := xml.NewDecoder(f)
		for err == nil {
			_, err = d.Token()
		}
		require.True(t, errors.Is(err, io.EOF), err)
		require.NoError(t, f.Close())
	}
}
