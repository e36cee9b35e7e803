//go:build !race

#include "textflag.h"

// func storeWord(p *atomic.Uint64, v uint64)
TEXT ·storeWord(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	STLR R1, (R0)
	RET

// func ownLines(p *byte, n int)
TEXT ·ownLines(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
loop:
	PRFM (R0), PSTL1KEEP
	ADD  $64, R0
	SUBS $1, R1
	BGT  loop
	RET
