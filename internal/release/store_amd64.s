//go:build !race

#include "textflag.h"

// func Store(p *atomic.Uint64, v uint64)
// Stores are seen in their order here. Go's own atomic store waits for them.
TEXT ·Store(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET

// func Own(p *atomic.Uint64)
TEXT ·Own(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX)
	RET
