package pointer_test

import (
	"testing"

	"github.com/weft-go/weft/transport"
	"github.com/weft-go/weft/transport/pointer"
	"github.com/weft-go/weft/transport/transporttest"
)

func opener(one func() *pointer.Transport) transporttest.New {
	return func(_ testing.TB, n int) []transport.Transport {
		ts := make([]transport.Transport, n)
		for i := range ts {
			ts[i] = one()
		}
		return ts
	}
}

func TestContractLocal(t *testing.T) { transporttest.Run(t, opener(pointer.NewLocal)) }
