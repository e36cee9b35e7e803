//go:build !race

#include "textflag.h"

// func stream(dst, src, next *byte, n int)
// n is at least 128, or it is one line that begins here. Up to the first line of dst
// that begins here, and behind the last, bytes are stored as always: twice where
// stores overlap. For each line between them one of next is asked for.
TEXT ·stream(SB), NOSPLIT, $0-32
	MOVQ   dst+0(FP), DI
	MOVQ   src+8(FP), SI
	MOVQ   next+16(FP), DX
	MOVQ   n+24(FP), CX
	MOVQ   DI, AX
	NEGQ   AX
	ANDQ   $63, AX
	JZ     lines
	MOVOU  0(SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVOU  X0, 0(DI)
	MOVOU  X1, 16(DI)
	MOVOU  X2, 32(DI)
	MOVOU  X3, 48(DI)
	ADDQ   AX, DI
	ADDQ   AX, SI
	SUBQ   AX, CX
lines:
	PREFETCHNTA (DX)
	MOVOU  0(SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVNTO X0, 0(DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ   $64, DX
	ADDQ   $64, SI
	ADDQ   $64, DI
	SUBQ   $64, CX
	CMPQ   CX, $64
	JGE    lines
	SFENCE
	TESTQ  CX, CX
	JZ     done
	MOVOU  -64(SI)(CX*1), X0
	MOVOU  -48(SI)(CX*1), X1
	MOVOU  -32(SI)(CX*1), X2
	MOVOU  -16(SI)(CX*1), X3
	MOVOU  X0, -64(DI)(CX*1)
	MOVOU  X1, -48(DI)(CX*1)
	MOVOU  X2, -32(DI)(CX*1)
	MOVOU  X3, -16(DI)(CX*1)
done:
	RET

// func own(p *byte, n int)
TEXT ·own(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX
loop:
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JLT  loop
	RET

// func fetch(p *byte, n int)
TEXT ·fetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX
loop:
	PREFETCHT0 (AX)
	ADDQ       $64, AX
	CMPQ       AX, CX
	JLT        loop
	RET

// func spread(dsts *[]byte, nDsts, at int, src *byte, n int, nexts *[]byte, nNexts, next int)
// n is a multiple of 64, and not 0.
TEXT ·spread(SB), NOSPLIT, $0-64
	MOVQ dsts+0(FP), R8
	MOVQ nDsts+8(FP), R10
	MOVQ at+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ n+32(FP), CX
	MOVQ nexts+40(FP), R9
	MOVQ nNexts+48(FP), R11
	MOVQ next+56(FP), DX
line:
	MOVQ  R9, AX
	MOVQ  R11, BX
	TESTQ BX, BX
	JZ    load
ask:
	MOVQ       (AX), R12
	PREFETCHT0 (R12)(DX*1)
	ADDQ       $24, AX
	DECQ       BX
	JNZ        ask
load:
	MOVOU 0(SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVQ  R8, AX
	MOVQ  R10, BX
store:
	MOVQ   (AX), R12
	ADDQ   DI, R12
	MOVNTO X0, 0(R12)
	MOVNTO X1, 16(R12)
	MOVNTO X2, 32(R12)
	MOVNTO X3, 48(R12)
	ADDQ   $24, AX
	DECQ   BX
	JNZ    store
	ADDQ   $64, DX
	ADDQ   $64, SI
	ADDQ   $64, DI
	SUBQ   $64, CX
	JNZ    line
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
