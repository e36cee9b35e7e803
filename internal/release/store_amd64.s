//go:build !race

#include "textflag.h"

// func Store(p *atomic.Uint64, v uint64)
// Stores are seen in their order here. Go's own atomic store waits for them.
TEXT ·Store(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET
