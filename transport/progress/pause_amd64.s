#include "textflag.h"

// func spinPause(n int)
// A leaf that never waits for anything itself: loops in assembly can't be
// preempted, so the loop that waits is in Go.
TEXT ·spinPause(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
loop:
	PAUSE
	DECQ CX
	JGT  loop
	RET
