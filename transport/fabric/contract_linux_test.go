package fabric_test

import (
	"testing"

	"github.com/weft-go/weft/transport/fabric"
	"github.com/weft-go/weft/transport/transporttest"
)

func TestContractShared(t *testing.T) {
	for _, m := range modes {
		t.Run(m.String(), func(t *testing.T) {
			transporttest.Run(t, opener(fabric.NewShared, fabric.WithMode(m)))
		})
	}
}
