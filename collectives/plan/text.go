package plan

import (
	"fmt"
	"strings"
)

var kindNames = [...]string{Copy: "copy", Put: "put", Wait: "wait", Release: "release",
	Combine: "combine", PullReduce: "pull-reduce", PutMulti: "put-multi"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

var bufferNames = [...]string{Send: "send", Recv: "recv", Scratch: "scratch", Inbox: "inbox", Multi: "multi", Board: "board"}

func (b Buffer) String() string {
	if int(b) < len(bufferNames) && b != 0 {
		return bufferNames[b]
	}
	return fmt.Sprintf("buffer %d", uint8(b))
}

// String is like "recv[3:8]", or "inbox 2[0:5]" for the inbox, or board, of peer 2.
func (r Range) String() string {
	if r.Buf == Inbox || r.Buf == Board {
		return fmt.Sprintf("%v %d[%d:%d]", r.Buf, r.Peer, r.From, r.To)
	}
	return fmt.Sprintf("%v[%d:%d]", r.Buf, r.From, r.To)
}

// String is like "combine recv[0:4] ← send[0:4], inbox 1[0:4]" or "put to 3 of
// recv[0:4]".
func (s Step) String() string {
	switch s.Kind {
	case Put:
		if len(s.Srcs) == 0 || s.Srcs[0].Len() == 0 {
			return fmt.Sprintf("signal to %d", s.Peer)
		}
		return fmt.Sprintf("put to %d of %v", s.Peer, s.Srcs[0])
	case Wait:
		return fmt.Sprintf("wait for %d elements from %d", s.Elems, s.Peer)
	case Release:
		return fmt.Sprintf("release to %d", s.Peer)
	}
	srcs := make([]string, len(s.Srcs))
	for i, r := range s.Srcs {
		srcs[i] = r.String()
	}
	text := fmt.Sprintf("%v %v ← %s", s.Kind, s.Dst, strings.Join(srcs, ", "))
	if s.Complete {
		text += " (complete)"
	}
	return text
}
