package bootstrap

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// dialsAtOnce bounds how many ranks a rank calls at the same time.
const dialsAtOnce = 16

// follow runs the rendezvous on the ranks other than 0: join, take the table,
// dial the lower ranks, take the higher ones, say so, and wait for the word to go.
func (p *party) follow(ctx context.Context) (*outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	acc := newAcceptor(ctx, p, p.lns)
	acc.start()
	defer acc.stop()

	root, at, err := p.reach(ctx, 0, p.route.addresses(p.node), purposeJoin, p.key)
	if err != nil {
		return nil, err
	}
	l := &listening{party: p, root: root, cancel: cancel, table: make(chan *table, 1), proceed: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(l.run)
	defer wg.Wait()
	defer root.Close()

	out, err := p.meet(ctx, l, at, acc)
	if err == nil {
		root.SetWriteDeadline(deadlineOf(ctx))
		if err = root.write(&frame{typ: frameReady}); err != nil {
			<-ctx.Done() // the connection is dead, so the one who listens will say why
		}
	}
	if err == nil {
		select {
		case <-l.proceed:
			return out, nil
		case <-ctx.Done():
			err = p.ended(ctx, nil, 0)
		}
	}
	if out != nil {
		out.close()
	}
	select { // rank 0 has the better word, if it has spoken
	case <-ctx.Done():
		err = p.ended(ctx, err, 0)
	default:
	}
	e := joinError(err, ErrGone, p.rank, 0)
	root.SetWriteDeadline(time.Now().Add(time.Second))
	root.write(&frame{typ: frameRefuse, data: encodeRefusal(e)})
	root.halfClose()
	return nil, e
}

// meet makes this rank's connections of the mesh.
func (p *party) meet(ctx context.Context, l *listening, at address, acc *acceptor) (*outcome, error) {
	var t *table
	select {
	case t = <-l.table:
	case <-ctx.Done():
		return nil, p.ended(ctx, nil, 0)
	}
	if at.network == "tcp" { // what worked once
		t.Members[0].TCP = []string{at.name}
	}
	key := prove(p.key, "mesh", t.Session)
	acc.openMesh(key)

	out := &outcome{members: t.Members, links: make([]*conn, p.size)}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce + 1)
	group.Go(func() error {
		for n := p.rank + 1; n < p.size; {
			select {
			case c := <-acc.callers:
				if c.Rank <= p.rank || c.Rank >= p.size {
					c.Close()
					continue
				}
				if old := out.links[c.Rank]; old != nil { // the dialer lost it and dialed again
					old.Close()
				} else {
					n++
				}
				out.links[c.Rank] = c.conn
			case <-gctx.Done():
				return p.ended(gctx, nil)
			}
		}
		return nil
	})
	for j := range p.rank {
		group.Go(func() error {
			c, _, err := p.reach(gctx, j, p.addresses(&t.Members[j]), purposeMesh, key)
			out.links[j] = c
			return err
		})
	}
	if err := group.Wait(); err != nil {
		out.close()
		return nil, err
	}
	return out, nil
}

// listening takes what rank 0 says to a rank that has joined.
type listening struct {
	*party
	root    *conn
	cancel  context.CancelCauseFunc // ends the joining with rank 0's refusal
	table   chan *table
	proceed chan struct{} // closed by the word to go
}

func (l *listening) run() {
	var data []byte
	for {
		f, err := l.root.read()
		closeFiles(f.files)
		switch {
		case err != nil:
			l.cancel(&JoinError{Err: ErrGone, Rank: l.rank, Ranks: []int{0}, Detail: "it ended or gave up while the ranks were connecting"})
			return
		case f.typ == frameRefuse:
			l.cancel(decodeRefusal(f.data))
			return
		case f.typ == frameGo:
			close(l.proceed)
			return
		case f.typ == frameTable && data == nil || f.typ == frameTable && len(data)+len(f.data) <= l.size*8192+MaxData:
			data = append(data, f.data...)
			if f.kind != 1 {
				continue
			}
			t, err := decodeTable(data, l.size)
			if err != nil {
				l.cancel(joinError(err, ErrProtocol, l.rank, 0))
				return
			}
			select {
			case l.table <- t:
			default: // a second table
				l.cancel(&JoinError{Err: ErrProtocol, Rank: l.rank, Ranks: []int{0}, Detail: "two tables"})
				return
			}
		default:
			l.cancel(&JoinError{Err: ErrProtocol, Rank: l.rank, Ranks: []int{0}})
			return
		}
	}
}

func deadlineOf(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}
