//go:build !race

#include "textflag.h"

// func Store(p *atomic.Uint64, v uint64)
TEXT ·Store(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func Own(p *atomic.Uint64)
TEXT ·Own(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET
