package main

import (
	"testing"

	"github.com/weft-go/weft/bench/internal/harness/harnesstest"
)

func TestMain(m *testing.M) { harnesstest.Main(m, "ring", "ring") }

func TestRuns(t *testing.T) {
	harnesstest.Runs(t, "ring", "ring", "-coll allreduce,reducescatter,allgather")
}
