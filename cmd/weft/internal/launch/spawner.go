package launch

import "runtime"

// A spawner runs functions on one thread that stays alive until stop. The
// kernel sends a child's parent-death signal when the *thread* that started it
// ends, and the Go runtime ends threads as it likes.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.work {
			f()
			s.done <- struct{}{}
		}
	}()
	return s
}

// do runs f and waits for it.
func (s *spawner) do(f func()) {
	s.work <- f
	<-s.done
}

// stop lets the thread go; all that it started must have ended.
func (s *spawner) stop() { close(s.work) }
