package comm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAbortErrors(t *testing.T) {
	for _, tt := range []struct {
		err  AbortError
		is   error
		text string
	}{
		{AbortError{Reason: ReasonDead, Ranks: []int{3}}, ErrPeerDead, "rank 3 is dead"},
		{AbortError{Reason: ReasonDead, Ranks: []int{1, 3}, Origin: 2, Call: "Barrier #4", Seq: 4}, ErrPeerDead, "ranks 1, 3 are dead (rank 2 in Barrier #4)"},
		{AbortError{Reason: ReasonClosed, Ranks: []int{0}}, ErrPeerClosed, "rank 0 closed the communicator"},
		{AbortError{Reason: ReasonTimeout, Origin: 1, Ranks: []int{2}, cause: context.DeadlineExceeded}, context.DeadlineExceeded, "rank 1 gave up waiting for rank 2"},
		{AbortError{Reason: ReasonCanceled, Origin: 5, cause: context.Canceled}, context.Canceled, "cancelled on rank 5"},
		{AbortError{Reason: ReasonMismatch, Detail: "rank 0: a; rank 1: b"}, ErrMismatch, "ranks disagree: rank 0: a; rank 1: b"},
		{AbortError{Reason: ReasonAbort, Origin: 2, Detail: "disk full"}, ErrAborted, "aborted by rank 2: disk full"},
		{AbortError{Reason: ReasonFailed, Detail: "x"}, ErrAborted, "failed on rank 0: x"},
	} {
		require.ErrorIs(t, &tt.err, tt.is)
		require.ErrorIs(t, &tt.err, ErrAborted)
		require.Equal(t, tt.text, tt.err.Error())
		got, err := decodeAbort(tt.err.encode(), 6)
		require.NoError(t, err)
		require.Equal(t, tt.text, got.Error())
		require.NoError(t, errors.Unwrap(got), "the cause stays on its rank")
	}
	long := AbortError{Detail: strings.Repeat("x", 1<<20)}
	long.tidy()
	require.Less(t, len(long.encode()), 8<<10)
}

// FuzzAbort: what a peer sends never panics, and names only ranks that are there.
func FuzzAbort(f *testing.F) {
	f.Add([]byte(`{"Origin":1,"Reason":"dead","Ranks":[0,7,-1]}`))
	f.Add([]byte(`{"Origin":-1}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeAbort(b, 3)
		if err != nil {
			return
		}
		for _, r := range append(e.Ranks, e.Origin) {
			require.True(t, r >= 0 && r < 3)
		}
		_ = e.Error()
	})
}
