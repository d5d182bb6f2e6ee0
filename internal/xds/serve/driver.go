package serve

import "sync"

// driver holds a stream's driveState. It keeps its lock for a transition alone, never while the
// session makes a step or a response is sent.
type driver struct {
	mu    sync.Mutex
	state driveState
	turn  chan struct{} // closed when who waits may drive; nil while nobody waits
}

// on returns what follows from an event.
func (d *driver) on(e event) effect {
	d.mu.Lock()
	defer d.mu.Unlock()
	var follows effect
	d.state, follows = d.state.next(e)
	if follows == hands {
		close(d.turn)
		d.turn = nil
	}
	return follows
}

// await waits until the stream's own goroutine drives.
func (d *driver) await() {
	d.mu.Lock()
	var follows effect
	if d.state, follows = d.state.next(requestComes); follows != waits {
		d.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	d.turn = turn
	d.mu.Unlock()
	<-turn
}

// take returns what is due, which the caller does. It drives.
func (d *driver) take() (due work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, due = d.state.take()
	return due
}

// now returns the state.
func (d *driver) now() driveState {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}
