#include "textflag.h"

// func spinPause(n int)
// ISB, since YIELD does next to nothing on most arm64 processors.
TEXT ·spinPause(SB), NOSPLIT, $0-8
	MOVD n+0(FP), R0
loop:
	ISB  $15
	SUBS $1, R0
	BGT  loop
	RET
