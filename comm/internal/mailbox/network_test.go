package mailbox

import "slices"

// network is a network among mailboxes of one goroutine. What is sent is seen
// when the test wants it to be.
type network struct {
	cells int // messages of a lane that were sent and not released
	lanes [][]lane
	// onPoll, if not nil, is told what each rank gets.
	onPoll func(from, to int, msg []byte)
}

// lane holds the messages from one rank to another, the oldest first.
type lane struct {
	sent    [][]byte
	visible int // of sent
	polled  int // of those
}

func newNetwork(ranks, cells int) *network {
	n := &network{cells: cells, lanes: make([][]lane, ranks)}
	for i := range n.lanes {
		n.lanes[i] = make([]lane, ranks)
	}
	return n
}

// end is one rank's end of a network.
type end struct {
	*network
	rank int
}

func (e end) TrySend(peer int, head *[HeadBytes]byte, body []byte) (bool, error) {
	l := &e.lanes[e.rank][peer]
	if len(l.sent) == e.cells {
		return false, nil
	}
	l.sent = append(l.sent, slices.Concat(head[:], body))
	return true, nil
}

func (e end) Poll(peer int) ([]byte, bool, error) {
	l := &e.lanes[peer][e.rank]
	if l.polled == l.visible {
		return nil, false, nil
	}
	msg := l.sent[l.polled]
	l.polled++
	if e.onPoll != nil {
		e.onPoll(peer, e.rank, msg)
	}
	return msg, true, nil
}

// Release spoils what must not be used any more.
func (e end) Release(peer int) error {
	l := &e.lanes[peer][e.rank]
	for _, msg := range l.sent[:l.polled] {
		for i := range msg {
			msg[i] = 0xdd
		}
	}
	l.sent = slices.Delete(l.sent, 0, l.polled)
	l.visible -= l.polled
	l.polled = 0
	return nil
}

// deliver makes the next message of a lane visible, if there is one that isn't.
func (n *network) deliver(from, to int) bool {
	l := &n.lanes[from][to]
	if l.visible == len(l.sent) {
		return false
	}
	l.visible++
	return true
}

func (n *network) deliverAll() {
	for i := range n.lanes {
		for j := range n.lanes[i] {
			n.lanes[i][j].visible = len(n.lanes[i][j].sent)
		}
	}
}
