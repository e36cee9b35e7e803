package plan

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has the collector run less often: a quarter of all time went to it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
