package comm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weft-go/weft/comm/internal/mailbox"
	"github.com/weft-go/weft/kernels"
	"github.com/weft-go/weft/transport/progress"
)

// messages moves the mailbox of a communicator. Whoever waits for a message
// makes steps; while nobody does and messages are under way, a goroutine makes them.
// A collective that waits for long makes steps as well, so that ranks which send to
// this one get on.
//
// Several goroutines may wait at once. Each makes its steps under mu and looks, still
// under mu, what would be news for it; then it waits without mu. Who changes
// something for others tells them by a kick.
type messages struct {
	c    *Communicator
	mail *progress.Mail

	mu       sync.Mutex
	box      *mailbox.Mailbox
	failed   []*Message // to be told, see unlock
	changed  bool       // since the last unlock
	watchers int        // goroutines that wait for news
	waiting  int        // those of the program among them
	inside   int        // goroutines that use the communicator's memory without mu
	closed   bool

	works  bool          // the goroutine in the background lives
	parked bool          // and has left the steps to those that wait
	unpark chan struct{} // ends that

	spare   []*Message // for blocking calls
	watches []*progress.MailWatch
}

func newMessages(c *Communicator, e *progress.Engine) (*messages, error) {
	q := &messages{c: c, mail: e.Mail(), unpark: make(chan struct{}, 1)}
	var err error
	q.box, err = mailbox.New(mailbox.Config{
		Rank: c.rank, Ranks: c.Size(), Net: q.mail, BodyBytes: q.mail.MailBytes(), Done: q.ended,
	})
	e.OnIdle(q.idle)
	return q, err
}

// take returns a message for a blocking call.
func (q *messages) take() *Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := len(q.spare) - 1; last >= 0 {
		m := q.spare[last]
		q.spare = q.spare[:last]
		return m
	}
	return new(Message)
}

func (q *messages) give(m *Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*m = Message{} // keep nothing of the caller's
	q.spare = append(q.spare, m)
}

// start starts a message. An error means that it was not.
func (q *messages) start(ctx context.Context, m *Message, call Call, buf []byte) error {
	c := q.c
	if err := ctx.Err(); err != nil {
		// The peer waits for this message, or will.
		return c.failMessage(call, &progress.WaitError{Peer: call.Root, Err: err})
	}
	elem := mailbox.Elem{Type: call.Type, Bytes: call.ElemBytes}
	if elem.Type != kernels.TypeInvalid {
		elem.Bytes = elem.Type.Size()
	}
	m.q, m.call, m.ended, m.err, m.errored = q, call, false, nil, nil
	m.req = mailbox.Request{Peer: call.Root, Tag: call.Tag, Buf: buf, Elem: elem, Owner: m}
	q.mu.Lock()
	if !q.closed && c.stop.Err() == nil && c.failedLater() {
		q.unlock(0)
		c.told.Store(true)
		return c.refuse(call, c.laterErr())
	}
	defer q.unlock(0)
	if q.closed {
		return c.refuse(call, c.stop.Err())
	}
	q.checkStop()
	if call.Collective == OpSend {
		q.box.Send(&m.req)
	} else {
		q.box.Recv(&m.req)
	}
	if m.req.Done() {
		return nil
	}
	q.changed = true
	if m.done == nil {
		return nil
	}
	if ctx.Done() != nil {
		m.forget = context.AfterFunc(ctx, func() { q.expire(ctx, m) })
	}
	q.inBackground()
	return nil
}

// expire ends a started message whose context is done.
func (q *messages) expire(ctx context.Context, m *Message) {
	q.mu.Lock()
	ended := m.ended || m.req.Done()
	q.mu.Unlock()
	if ended {
		return
	}
	_ = q.c.failMessage(m.call, &progress.WaitError{Peer: m.call.Root, Err: ctx.Err()}) // all messages end with it
}

// run waits for a message of a blocking call, and gives it back.
func (q *messages) run(ctx context.Context, m *Message) (MessageStatus, error) {
	_ = q.await(ctx, true, m, nil) // m.err says all
	status, err := m.req.Status, q.late(ctx, m.err)
	q.give(m)
	return status, err
}

// late adds the error of a context to that of a message: if another rank was
// first to give up, this one is as late.
func (q *messages) late(ctx context.Context, err error) error {
	if own := ctx.Err(); err != nil && own != nil && !errors.Is(err, own) {
		return fmt.Errorf("%w; %w", err, own)
	}
	return err
}

// await makes steps until a message has ended, and another if that is not nil. It
// waits no longer than ctx, whose end, if own, is the end of the communicator and so
// of the messages. Otherwise it returns the error of ctx.
func (q *messages) await(ctx context.Context, own bool, m, other *Message) error {
	q.mu.Lock()
	if open(m, other) == nil {
		q.unlock(0)
		return nil
	}
	if q.closed {
		for open(m, other) != nil { // Close is about to tell
			q.unlock(0)
			time.Sleep(pollTime)
			q.mu.Lock()
		}
		q.unlock(0)
		return nil
	}
	w := q.enter(ctx)
	defer q.leave(w)
	for {
		news := q.step()
		left := open(m, other)
		if left == nil {
			return nil
		}
		if !news {
			w.Watch()
		}
		q.unlock(1)
		var err error
		if !news {
			err = q.news(ctx, w, left, own)
		}
		q.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// open returns the first of two messages that has not ended, or nil. q.mu is held.
func open(m, other *Message) *Message {
	if m.ended {
		m = other
	}
	if m == nil || m.ended {
		return nil
	}
	return m
}

// pollTime is between looks at something that takes no time, after failures only.
const pollTime = 100 * time.Microsecond

// news waits for news, for the sake of m. It returns the error of ctx if that is
// done and not m's own.
func (q *messages) news(ctx context.Context, w *progress.MailWatch, m *Message, own bool) error {
	err := w.Wait(m.call.Root)
	if err == nil || q.hasEnded(m) {
		return nil
	}
	var wait *progress.WaitError
	switch {
	case !errors.As(err, &wait): // the communicator has ended: m will be told
		time.Sleep(pollTime)
	case !own && ctx.Err() != nil:
		return ctx.Err()
	default:
		_ = q.c.failMessage(m.call, err) // all messages end with it, m as well
	}
	return nil
}

func (q *messages) hasEnded(m *Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return m.ended
}

// enter is for a goroutine of the program that will wait. q.mu is held.
func (q *messages) enter(ctx context.Context) *progress.MailWatch {
	q.inside++
	q.waiting++
	q.watchers++
	var w *progress.MailWatch
	if last := len(q.watches) - 1; last >= 0 {
		w, q.watches = q.watches[last], q.watches[:last]
	} else {
		w = q.mail.NewWatch()
	}
	w.Begin(ctx, q.c.timeout, false)
	return w
}

// leave is for one that has waited. q.mu is held, and released.
func (q *messages) leave(w *progress.MailWatch) {
	w.Begin(context.Background(), 0, false) // keep nothing of the caller's
	q.watches = append(q.watches, w)
	q.watchers--
	q.waiting--
	q.changed = true // the others must look after what this one did
	q.inside--
	q.inBackground()
	q.unlock(0)
}

// checkStop ends all messages if the communicator has ended. q.mu is held.
func (q *messages) checkStop() bool {
	err := q.c.stop.Err()
	if err != nil {
		q.box.Fail(err)
	}
	return err != nil
}

// step makes a step, and says whether there was news. q.mu is held.
func (q *messages) step() bool {
	if q.closed || q.checkStop() {
		return false
	}
	news, err := q.box.Step()
	if err != nil {
		// Whatever it is, it ends the communicator; see unlock.
		q.failed = append(q.failed, &Message{errored: err})
		q.box.Fail(err)
	}
	q.changed = q.changed || news
	return news
}

// ended is called by the mailbox. q.mu is held.
func (q *messages) ended(r *mailbox.Request) {
	m := r.Owner.(*Message)
	r.Owner, r.Buf = nil, nil // keep nothing of the caller's
	if r.Err != nil {
		m.errored = r.Err
		q.failed = append(q.failed, m)
		return
	}
	q.end(m, nil)
}

func (q *messages) end(m *Message, err error) {
	m.ended, m.err = true, err
	if m.forget != nil {
		m.forget()
	}
	if m.done != nil {
		close(m.done)
	}
	q.changed = true
}

// unlock releases q.mu. Before, it ends the communicator if a message has failed,
// and tells those that are waited for; self is 1 if the caller watches itself.
func (q *messages) unlock(self int) {
	for len(q.failed) > 0 {
		failed := q.failed
		q.failed = nil
		q.mu.Unlock()
		errs := make([]error, len(failed))
		for i, m := range failed {
			errs[i] = q.c.failMessage(m.call, m.errored)
		}
		q.mu.Lock()
		for i, m := range failed {
			q.end(m, errs[i])
		}
		q.checkStop()
	}
	if q.changed && q.watchers > self {
		q.mail.Kick() // under mu: as long as somebody watches, the memory is there
	}
	q.changed = false
	q.mu.Unlock()
}

// inBackground sees to it that somebody makes steps if there is need. q.mu is held.
func (q *messages) inBackground() {
	switch {
	case q.waiting > 0:
	case q.parked:
		q.parked = false
		q.unpark <- struct{}{}
	case !q.works && q.box.Outstanding() > 0:
		q.works = true
		q.inside++
		go q.work()
	}
}

// work makes steps while messages are under way and nobody else does.
func (q *messages) work() {
	w := q.mail.NewWatch()
	w.Begin(context.Background(), 0, true)
	q.mu.Lock()
	for q.box.Outstanding() > 0 {
		if q.waiting > 0 {
			q.parked = true
			q.unlock(0)
			<-q.unpark
			q.mu.Lock()
			continue
		}
		if q.step() {
			q.unlock(0)
			q.mu.Lock()
			continue
		}
		w.Watch()
		q.watchers++
		q.unlock(1)
		_ = w.Wait(AnySource) // it ends only with the communicator, as step will see
		q.mu.Lock()
		q.watchers--
	}
	q.works = false
	q.inside--
	q.unlock(0)
}

// idleSteps bounds what a collective does for messages at a time.
const idleSteps = 4

// idle is called by a collective that waits.
func (q *messages) idle() {
	if q.mu.TryLock() {
		for i := 0; i < idleSteps && !q.closed && q.step(); i++ {
			continue
		}
		q.unlock(0)
	}
}

// gone takes what a peer has sent before it closed the communicator. Nothing
// touches its memory any more. It does not wait.
func (q *messages) gone(rank int) {
	q.mu.Lock()
	if !q.closed && !q.checkStop() {
		if err := q.box.Gone(rank, &departed{rank}); err != nil {
			q.failed = append(q.failed, &Message{errored: err})
			q.box.Fail(err)
		}
		q.changed = true
	}
	if len(q.failed) == 0 {
		q.unlock(0)
		return
	}
	q.mu.Unlock()
	go func() { // the ranks must agree first
		q.mu.Lock()
		q.unlock(0)
	}()
}

// close ends all messages, and waits until nobody uses the communicator's memory.
// The communicator has ended.
func (q *messages) close() {
	q.mu.Lock()
	q.checkStop()
	q.closed = true
	q.changed = true
	for q.inside > 0 {
		q.unlock(0)
		time.Sleep(pollTime)
		q.mu.Lock()
	}
	q.unlock(0)
}
