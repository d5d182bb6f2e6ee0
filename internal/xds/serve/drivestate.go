package serve

// driveState tells who drives a stream's session and what is due. One of two goroutines drives at a
// time: the stream's own, for what the client sends, or one of the Hub's pool, for pushes, ticks
// and the seal.
//
// next and take are pure: they decide who drives, who waits and whom the Hub calls, and driver does
// as they say. They keep two promises:
//
//   - What is due is done: while something is due, somebody drives, or the Hub was asked to call
//     push.
//   - The Hub is asked for nothing else: once nothing is due, or the stream has ended, it is quiet.
type driveState struct {
	phase   phase
	waits   bool // the stream's own goroutine waits until the push stops
	sealing bool // the server waits for the seal, see seal.go
	due     work
}

// phase is what happens to the session.
type phase uint8

const (
	answering phase = iota // the stream's own goroutine drives; a stream begins so
	pushing                // a push drives
	stuck                  // as pushing, and its slot of the throttle is given back
	idle                   // nobody drives
	over                   // the stream has ended, and nobody will drive
	numPhases
)

// work is a set of what a driver has to do besides the request that it has.
type work uint8

const (
	duePush work = 1 << iota // a push found somebody driving
	dueTick                  // the session's tick has fired
	dueSeal                  // the session is to seal
)

// event is what happens to a stream.
type event uint8

const (
	requestComes event = iota // the stream's own goroutine wants to drive
	pushComes                 // the Hub has called push, which wants to drive
	tickFires                 // the session's tick
	sealAsked                 // the server wants the seal
	sealDone                  // the client has read it, or there is none
	sendStalls                // the driver's send waits for the client
	driverStops               // who drives has done what it wanted
	streamEnds                // the stream's own goroutine drives, for the last time
	numEvents
)

// effect is what follows from an event.
type effect uint8

const (
	nothing effect = iota
	drives         // who brought the event drives
	waits          // who brought the event waits until another event hands it the session
	hands          // the goroutine that waits drives
	pokes          // the Hub calls push soon
	yields         // the push gives its slot back
)

// next returns the state after an event, and what follows.
func (s driveState) next(e event) (driveState, effect) {
	if s.phase == over {
		return s, nothing
	}
	switch e {
	case requestComes:
		return s.requestComes()
	case pushComes:
		if s.phase == idle {
			s.phase = pushing
			return s, drives
		}
		s.due |= duePush // whoever drives does the rest
		return s, nothing
	case tickFires:
		return s.add(dueTick)
	case sealAsked:
		s.sealing = true
		return s.add(dueSeal)
	case sealDone:
		s.sealing = false
	case sendStalls:
		if s.phase == pushing {
			s.phase = stuck
			return s, yields
		}
	case driverStops:
		return s.driverStops()
	case streamEnds:
		return driveState{phase: over}, nothing
	}
	return s, nothing
}

func (s driveState) requestComes() (driveState, effect) {
	switch s.phase {
	case pushing, stuck:
		s.waits = true
		return s, waits
	default:
		s.phase = answering
		return s, drives
	}
}

// add adds to what is due. If nobody drives, the Hub has it done.
func (s driveState) add(w work) (driveState, effect) {
	s.due |= w
	if s.phase == idle {
		return s, pokes
	}
	return s, nothing
}

func (s driveState) driverStops() (driveState, effect) {
	if s.waits {
		s.waits, s.phase = false, answering
		return s, hands
	}
	s.phase = idle
	if s.due != 0 {
		return s, pokes
	}
	return s, nothing
}

// take returns what is due, which the caller then does. It drives.
func (s driveState) take() (driveState, work) {
	due := s.due
	s.due = 0
	return s, due
}
