package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// doomGrace is how long rank 0 stays to tell latecomers that the job has failed.
const doomGrace = 2 * time.Second

// A word is what rank 0 hears from a rank that has joined.
type word struct {
	rank  int
	frame frame
	err   error
}

// A gathering is rank 0's view of the ranks coming together. All of it belongs
// to the goroutine that runs lead; others send on words.
type gathering struct {
	*party
	acc    *acceptor
	joined []*caller // by rank
	count  int       // of those that have been let in
	told   int       // ranks that have been turned away
	links  []*conn   // of the mesh, by rank
	linked int       // of links
	ready  int       // ranks that have all their connections
	tabled bool      // the table is out
	words  chan word
	done   chan struct{} // closed at the end, for those who send on words
	wg     sync.WaitGroup
	giveUp *time.Timer
	until  time.Time // when giveUp fires; zero: not set
}

// lead runs the rendezvous on rank 0: take everyone in, send the table, take
// the connections of the mesh, and when all ranks have theirs, let them go.
func (p *party) lead(ctx context.Context) (*outcome, error) {
	g := &gathering{
		party: p, acc: newAcceptor(ctx, p, p.lns), joined: make([]*caller, p.size), links: make([]*conn, p.size),
		words: make(chan word), done: make(chan struct{}), giveUp: time.NewTimer(time.Hour),
	}
	g.giveUp.Stop()
	if d, ok := ctx.Deadline(); ok {
		g.within(time.Until(d))
	}
	g.acc.start()
	err := g.run(ctx)
	if err != nil {
		g.doom(ctx, err)
	}
	g.giveUp.Stop()
	close(g.done)
	for _, c := range g.joined {
		if c != nil {
			c.Close()
		}
	}
	g.acc.stop()
	g.wg.Wait()
	out := &outcome{links: g.links}
	if err != nil {
		out.close()
		return nil, err
	}
	out.members = g.table(nil).Members
	return out, nil
}

func (g *gathering) run(ctx context.Context) *JoinError {
	if g.refuse != "" {
		return &JoinError{Err: ErrRefused, Ranks: []int{0}, Detail: g.refuse}
	}
	for {
		var err *JoinError
		switch {
		case !g.tabled && g.count == g.size-1:
			err = g.sendTable()
		case g.tabled && g.ready == g.size-1 && g.linked == g.size-1:
			g.broadcast(&frame{typ: frameGo})
			return nil
		default:
			select {
			case c := <-g.acc.callers:
				err = g.take(c)
			case w := <-g.words:
				err = g.hear(w)
			case <-g.giveUp.C:
				err = g.missing()
			case <-ctx.Done():
				err = g.ended(ctx, nil)
				if err.Err == ErrMissing {
					err = g.missing()
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// within makes rank 0 give up a little before any rank does, so that all learn
// from it who is missing.
func (g *gathering) within(d time.Duration) {
	d -= min(d/10, time.Second)
	if at := time.Now().Add(d); g.until.IsZero() || at.Before(g.until) {
		g.until = at
		g.giveUp.Reset(d)
	}
}

// take lets a caller in, or finds that the job can't be.
func (g *gathering) take(c *caller) *JoinError {
	if c.purpose == purposeMesh {
		if !g.tabled || c.Rank < 1 || c.Rank >= g.size {
			c.Close()
			return nil
		}
		if old := g.links[c.Rank]; old != nil { // the dialer lost it and dialed again
			old.Close()
			g.linked--
		}
		g.links[c.Rank] = c.conn
		g.linked++
		return nil
	}
	err := &JoinError{Rank: 0, Ranks: []int{c.Rank}}
	switch {
	case c.Version != g.version:
		err.Err, err.Detail = ErrVersion, fmt.Sprintf("version %d, rank 0 has %d", c.Version, g.version)
	case c.Size != g.size || c.Rank >= g.size:
		err.Err, err.Detail = ErrSize, fmt.Sprintf("it says %d ranks, rank 0 says %d", c.Size, g.size)
	case c.Rank == 0 || g.joined[c.Rank] != nil:
		other := g.me
		if c.Rank != 0 {
			other = g.joined[c.Rank].member
		}
		err.Err = ErrDuplicateRank
		err.Detail = fmt.Sprintf("process %d on %s and process %d on %s", other.PID, other.Host, c.PID, c.Host)
	case c.Gen != g.gen:
		err.Err, err.Detail = ErrGeneration, fmt.Sprintf("it has connected %d times before, rank 0 %d times", c.Gen, g.gen)
	case c.Refuse != "":
		err.Err, err.Detail = ErrRefused, c.Refuse
	default:
		g.admit(c)
		return nil
	}
	g.turnAway(c, err)
	return err
}

// turnAway refuses a caller, and remembers that its rank has been told.
func (g *gathering) turnAway(c *caller, e *JoinError) {
	c.refuse(e)
	if c.Rank > 0 && c.Rank < g.size && g.joined[c.Rank] == nil {
		g.joined[c.Rank] = c // closed; there is nothing more to come from it
		g.told++
	}
}

func (g *gathering) admit(c *caller) {
	g.log.Debug("weft: rank joined", "peer", c.Rank, "host", c.Host, "pid", c.PID)
	g.joined[c.Rank] = c
	g.count++
	if c.Wait > 0 {
		g.within(time.Duration(min(c.Wait, 1<<40)) * time.Millisecond)
	}
	g.wg.Go(func() {
		for {
			f, err := c.read()
			select {
			case g.words <- word{c.Rank, f, err}:
			case <-g.done:
				closeFiles(f.files)
				return
			}
			if err != nil {
				return
			}
		}
	})
}

// hear takes a word from a rank that has joined.
func (g *gathering) hear(w word) *JoinError {
	closeFiles(w.frame.files)
	switch {
	case w.err != nil:
		return &JoinError{Err: ErrGone, Ranks: []int{w.rank}, Detail: "it ended or gave up while the ranks were connecting"}
	case w.frame.typ == frameRefuse:
		return joinError(decodeRefusal(w.frame.data), ErrProtocol, w.rank)
	case w.frame.typ == frameReady && g.tabled:
		g.ready++
		return nil
	}
	return &JoinError{Err: ErrProtocol, Ranks: []int{w.rank}, Detail: fmt.Sprintf("frame of type %d", w.frame.typ)}
}

// missing names the ranks that keep the others waiting.
func (g *gathering) missing() *JoinError {
	var ranks []int
	for r := 1; r < g.size; r++ {
		if g.joined[r] == nil || g.tabled && g.links[r] == nil {
			ranks = append(ranks, r)
		}
	}
	detail := ""
	if g.count == 0 {
		detail = "nobody else came; ranks in different containers or network namespaces need WEFT_ROOT"
	} else if len(ranks) == 0 {
		detail = "some ranks could not connect to each other"
	}
	return &JoinError{Err: ErrMissing, Ranks: ranks, Detail: detail}
}

func (g *gathering) table(session []byte) *table {
	t := &table{Session: session, Members: make([]member, g.size)}
	t.Members[0] = g.me
	for r := 1; r < g.size; r++ {
		t.Members[r] = g.joined[r].member
	}
	return t
}

func (g *gathering) sendTable() *JoinError {
	session := newNonce()
	data, err := json.Marshal(g.table(session))
	if err != nil {
		return joinError(err, ErrProtocol, 0)
	}
	g.acc.openMesh(prove(g.key, "mesh", session))
	for part := range slices.Chunk(data, MaxData) {
		f := frame{typ: frameTable, data: part}
		if data = data[len(part):]; len(data) == 0 {
			f.kind = 1
		}
		g.broadcast(&f)
	}
	g.tabled = true
	return nil
}

// broadcast writes to everyone who has joined. A rank that can't be written to
// is found out by its reader, or by the time-out.
func (g *gathering) broadcast(f *frame) {
	b := f.encode()
	for r, c := range g.joined {
		if c == nil {
			continue
		}
		c.SetWriteDeadline(g.until)
		if err := c.writeEncoded(b, nil); err != nil {
			g.log.Debug("weft: write", "peer", r, "error", err)
		}
	}
}

// doom tells everyone why the job has failed; those who are still to come as
// well, for a while, unless all there is to tell is that they are late.
func (g *gathering) doom(ctx context.Context, e *JoinError) {
	g.until = time.Now().Add(time.Second)
	g.broadcast(&frame{typ: frameRefuse, data: encodeRefusal(e)})
	if e.Err == ErrMissing || e.Err == ErrCanceled {
		return
	}
	grace := time.NewTimer(doomGrace)
	defer grace.Stop()
	for g.count+g.told < g.size-1 {
		select {
		case c := <-g.acc.callers:
			if c.purpose == purposeMesh {
				c.Close()
				continue
			}
			g.turnAway(c, e)
		case <-g.words:
		case <-grace.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
