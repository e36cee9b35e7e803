package mailbox

// Gone says that a peer has written its last message and reads none any more.
// What is there of it is taken, without touching it; then every request that needs
// it fails with err. What it sent in whole is received as before.
func (m *Mailbox) Gone(peer int, err error) error {
	p := &m.peers[peer]
	if m.err != nil || p.gone != nil || peer == m.rank {
		return nil
	}
	for {
		got, err := m.pull(peer)
		if err != nil {
			return err
		}
		if !got {
			break
		}
	}
	p.gone = err
	m.dropPeer(p)
	for _, t := range []*table{&m.sends, &m.receives} {
		for id, r := range t.requests {
			if r != nil && (t == &m.sends && r.Peer == peer || t == &m.receives && r.Status.Source == peer) {
				t.drop(uint32(id))
				m.finish(r, err)
			}
		}
	}
	m.failPosted()
	return nil
}

// Fail ends all requests with err, and all later ones but receives of what has
// arrived whole.
func (m *Mailbox) Fail(err error) {
	if m.err != nil {
		return
	}
	for i := range m.peers {
		// Take what is there. What is wrong with it does not matter any more.
		for i != m.rank && m.peers[i].gone == nil {
			if got, err := m.pull(i); err != nil || !got {
				break
			}
		}
	}
	m.err = err
	for i := range m.peers {
		m.dropPeer(&m.peers[i])
	}
	for _, t := range []*table{&m.sends, &m.receives} {
		for id, r := range t.requests {
			if r != nil {
				t.drop(uint32(id))
				m.finish(r, err)
			}
		}
	}
	for {
		a := m.unexpected.take(func(a *arrived) bool { return a.send != nil })
		if a == nil {
			break
		}
		m.finish(a.send, err)
		m.recycle(a)
	}
	m.failPosted()
}

// dropPeer empties the lists of a peer. Those of their requests that are in no
// table fail.
func (m *Mailbox) dropPeer(p *peer) {
	err := m.err
	if err == nil {
		err = p.gone
	}
	for !p.envelopes.empty() {
		if r := p.envelopes.pop(); len(r.Buf) <= m.bodyBytes {
			m.finish(r, err)
		}
	}
	p.clearings, p.transfers = list[Request, *Request]{}, list[Request, *Request]{}
}

// failPosted fails the receives that nothing can match any more.
func (m *Mailbox) failPosted() {
	for {
		r := m.posted.take(func(r *Request) bool { return m.hopeless(r) != nil })
		if r == nil {
			return
		}
		m.finish(r, m.hopeless(r))
	}
}
