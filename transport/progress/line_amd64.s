//go:build !race

#include "textflag.h"

// func storeWord(p *atomic.Uint64, v uint64)
// Stores are seen in their order here. Go's own atomic store waits for them.
TEXT ·storeWord(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET

// func ownLines(p *byte, n int)
TEXT ·ownLines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
loop:
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX)
	ADDQ $64, AX
	DECQ CX
	JGT  loop
	RET
