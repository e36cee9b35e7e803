package comm

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-go/weft/comm/bootstrap"
	"github.com/weft-go/weft/kernels"
)

func membersOf(calls ...Call) *Members {
	return NewMembers(len(calls), func(i int) Call { return calls[i] })
}

// TestMembers: Groups agree if all their calls do, and if both are settled or not.
func TestMembers(t *testing.T) {
	a := Call{Collective: OpAllReduce, Count: 10, Type: kernels.TypeFloat32}
	b := Call{Collective: OpBroadcast, Count: 10, Type: kernels.TypeFloat32, Root: 1}
	own, other := Call{Collective: OpGatherV, Count: 3, Type: kernels.TypeInt8}, Call{Collective: OpGatherV, Count: 4, Type: kernels.TypeInt8}
	require.Equal(t, membersOf(a, b).Call(), membersOf(a, b).Call())
	require.Equal(t, membersOf(own).Call(), membersOf(other).Call(), "the count is each rank's own")
	seen := map[Call]bool{}
	for _, m := range []*Members{membersOf(), membersOf(a), membersOf(b), membersOf(a, b), membersOf(b, a), membersOf(a, a), membersOf(a, b, a), membersOf(own)} {
		for range 2 {
			require.False(t, seen[m.Call()], "%v", m.Call())
			require.Equal(t, m.Call(), m.Call().pack(9).unpack())
			seen[m.Call()] = true
			m.Settle()
		}
	}
}

// TestToldCalls: a rank tells the members of the Groups that it remembers.
func TestToldCalls(t *testing.T) {
	var l callLog
	store := func(seq uint64, m *Members) {
		l[seq%uint64(len(l))].members.Store(m)
		l.store(seq, m.Call().pack(seq))
	}
	a := Call{Collective: OpAllReduce, Count: 1 << 30, Type: kernels.TypeFloat32, Op: kernels.Max}
	f := Call{Collective: OpAllReduce, Count: 1 << 30, ElemBytes: 1 << 30, Func: true, Root: maxRanks - 1, Digest: 1<<32 - 1}
	few, many := membersOf(a, f), NewMembers(1000, func(i int) Call { f.Count = 1<<30 + i; return f })
	store(5, few)
	got, ok := l.told(5)
	require.True(t, ok)
	require.Equal(t, a, got.Members[0])
	require.Len(t, got.Members, 2)
	few.Settle()
	got, _ = l.told(5)
	require.Len(t, got.Members, 2, "settled meanwhile")
	// A member list that is already another Group's is not told.
	l[5].members.Store(many)
	got, ok = l.told(5)
	require.True(t, ok)
	require.Empty(t, got.Members)
	// Other calls have none, in the same place.
	l.store(5+16, a.pack(5+16))
	got, ok = l.told(5 + 16)
	require.True(t, ok)
	require.Equal(t, toldCall{Call: a}, got)

	for seq := uint64(30); seq < 46; seq++ {
		store(seq, many)
	}
	told := l.lastTold(45)
	require.Len(t, told, 16)
	require.Len(t, told[45].Members, maxTold)
	require.Empty(t, told[44].Members)
	data, err := json.Marshal(told)
	require.NoError(t, err)
	require.Less(t, len(data), bootstrap.MaxData)
	var back map[uint64]toldCall
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, told, back)
}

// TestCompare: what two ranks called, down to the call of a Group.
func TestCompare(t *testing.T) {
	a := Call{Collective: OpAllReduce, Count: 10, Type: kernels.TypeFloat32}
	b := Call{Collective: OpBroadcast, Count: 10, Type: kernels.TypeFloat32}
	group := func(calls ...Call) toldCall {
		m := membersOf(calls...)
		return toldCall{m.Call(), m.first}
	}
	untold := func(n int, last Call) toldCall {
		m := NewMembers(n, func(i int) Call {
			if i == n-1 {
				return last
			}
			return a
		})
		return toldCall{m.Call(), m.first}
	}
	forgotten := group(a, b)
	forgotten.Members = nil
	for _, tt := range []struct {
		x, y         toldCall
		first, other string
	}{
		{toldCall{Call: a}, toldCall{Call: b}, `AllReduce #41 count 10 float32 sum`, `Broadcast #41 root 0 count 10 float32`},
		{group(a, b), group(a, a), `Group #41 call 2: Broadcast root 0 count 10 float32`, `Group #41 call 2: AllReduce count 10 float32 sum`},
		{group(a), group(a, b), `Group #41 has 1 calls`, `Group #41 call 2: Broadcast root 0 count 10 float32`},
		{group(a, b), group(), `Group #41 call 1: AllReduce count 10 float32 sum`, `Group #41 has 0 calls`},
		{group(a), toldCall{Call: b}, `Group #41 of 1 calls, digest [0-9a-f]{8}`, `Broadcast #41 root 0 count 10 float32`},
		{untold(70, a), untold(70, b), `Group #41 of 70 calls, digest [0-9a-f]{8}`, `Group #41 of 70 calls, digest [0-9a-f]{8}`},
		{untold(64, a), untold(65, b), `Group #41 of 64 calls, digest [0-9a-f]{8}`, `Group #41 of 65 calls, digest [0-9a-f]{8}`},
		{forgotten, group(a, a), `Group #41 of 2 calls, digest [0-9a-f]{8}`, `Group #41 of 2 calls, digest [0-9a-f]{8}`},
	} {
		x, y := describe(tt.x, tt.y, 41)
		require.Regexp(t, "^"+tt.first+"$", x)
		require.Regexp(t, "^"+tt.other+"$", y)
		y, x = describe(tt.y, tt.x, 41)
		require.Regexp(t, "^"+tt.first+"$", x)
		require.Regexp(t, "^"+tt.other+"$", y)
	}
}
