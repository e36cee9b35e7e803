package comm

import (
	"testing"

	"github.com/weft-go/weft/internal/ranktest"
)

// programs are those of tests with processes.
var programs = map[string]func() error{}

func TestMain(m *testing.M) { ranktest.Main(m, programs) }
