package comm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// A Job is a call that was started and runs when it is its turn.
type Job interface {
	// Run makes the call, with [Communicator.BeginStarted]. It ends when the
	// communicator does.
	Run()
	// Ended is called right after Run, when other calls may begin.
	Ended()
}

// startedCalls are the calls that were started and have not ended. One goroutine,
// which lives as long as there are any, runs them in the order of their start.
type startedCalls struct {
	pending atomic.Int64

	mu    sync.Mutex
	queue []Job
	works bool          // the goroutine lives
	idle  chan struct{} // closed when it ends; nil if nobody waits for that
}

// Start has a job run when all that were started before have ended. It does not
// block. It is for those who write collectives.
func (c *Communicator) Start(job Job) {
	q := &c.started
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending.Add(1)
	q.queue = append(q.queue, job)
	if !q.works {
		q.works = true
		go q.work()
	}
}

func (q *startedCalls) work() {
	for job := q.next(); job != nil; job = q.next() {
		q.run(job)
	}
}

// run runs one job. If that ends this goroutine, another one goes on.
func (q *startedCalls) run(job Job) {
	returned := false
	defer func() {
		q.pending.Add(-1)
		job.Ended()
		if !returned {
			go q.work()
		}
	}()
	job.Run()
	returned = true
}

// next takes the first job from the queue. Without one, the goroutine ends.
func (q *startedCalls) next() Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) > 0 {
		job := q.queue[0]
		q.queue[0] = nil
		q.queue = q.queue[1:]
		return job
	}
	q.queue, q.works = nil, false
	if q.idle != nil {
		close(q.idle)
		q.idle = nil
	}
	return nil
}

// drain waits until nothing that was started is left.
func (q *startedCalls) drain(ctx context.Context) error {
	q.mu.Lock()
	if !q.works {
		q.mu.Unlock()
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	idle := q.idle
	q.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gaveUpTurn ends the communicator because a call's context ended before its
// turn came: the others will make that call, and wait for this rank.
func (c *Communicator) gaveUpTurn(call Call, cause error) error {
	e := &AbortError{Origin: c.rank, Reason: ReasonTimeout, Call: call.String(), Detail: "in " + call.String() + ", behind calls that were started before", cause: cause}
	if errors.Is(cause, context.Canceled) {
		e.Reason = ReasonCanceled
	}
	return c.refuse(call, c.abort(e))
}
