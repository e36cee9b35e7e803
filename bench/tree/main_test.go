package main

import (
	"testing"

	"github.com/weft-go/weft/bench/internal/harness/harnesstest"
)

func TestMain(m *testing.M) { harnesstest.Main(m, "tree", "tree") }

func TestRuns(t *testing.T) {
	harnesstest.Runs(t, "tree", "tree", "-coll allreduce,reduce,broadcast,gather,scatter")
}
