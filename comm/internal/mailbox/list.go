package mailbox

// A list is a first-in first-out list of things that hold the link to the next
// themselves, so that lists take no memory. A thing is in one list at a time.
type list[T any, P linked[T]] struct{ head, tail *T }

type linked[T any] interface {
	*T
	link() **T
}

func (l *list[T, P]) empty() bool { return l.head == nil }

func (l *list[T, P]) push(x *T) {
	*P(x).link() = nil
	if l.tail == nil {
		l.head = x
	} else {
		*P(l.tail).link() = x
	}
	l.tail = x
}

func (l *list[T, P]) pop() *T {
	x := l.head
	if l.head = *P(x).link(); l.head == nil {
		l.tail = nil
	}
	*P(x).link() = nil
	return x
}

// take removes and returns the first for which match is true, or nil.
func (l *list[T, P]) take(match func(*T) bool) *T {
	var before *T
	for x := l.head; x != nil; before, x = x, *P(x).link() {
		if !match(x) {
			continue
		}
		after := *P(x).link()
		if before == nil {
			l.head = after
		} else {
			*P(before).link() = after
		}
		if l.tail == x {
			l.tail = before
		}
		*P(x).link() = nil
		return x
	}
	return nil
}

// A table gives requests numbers that are in use once at a time.
type table struct {
	requests []*Request
	free     []uint32
}

func (t *table) add(r *Request) uint32 {
	if last := len(t.free) - 1; last >= 0 {
		id := t.free[last]
		t.free = t.free[:last]
		t.requests[id] = r
		return id
	}
	t.requests = append(t.requests, r)
	return uint32(len(t.requests) - 1)
}

// get returns the request with a number, which comes from a peer, or nil.
func (t *table) get(id uint32) *Request {
	if uint64(id) >= uint64(len(t.requests)) {
		return nil
	}
	return t.requests[id]
}

func (t *table) drop(id uint32) {
	t.requests[id] = nil
	t.free = append(t.free, id)
}
