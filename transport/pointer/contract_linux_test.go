package pointer_test

import (
	"testing"

	"github.com/weft-go/weft/transport/pointer"
	"github.com/weft-go/weft/transport/transporttest"
)

func TestContractShared(t *testing.T) { transporttest.Run(t, opener(pointer.NewShared)) }
