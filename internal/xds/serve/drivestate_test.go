package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDriveStateTable has each event in each phase. What the table does not name changes nothing.
func TestDriveStateTable(t *testing.T) {
	type outcome struct {
		state driveState
		what  effect
	}
	in := func(p phase) driveState { return driveState{phase: p} }
	due := func(p phase, w work) driveState { return driveState{phase: p, due: w} }
	seals := func(p phase, w work) driveState { return driveState{phase: p, due: w, sealing: true} }
	table := map[event]map[phase]outcome{
		requestComes: {
			answering: {in(answering), drives}, // it drives already
			pushing:   {driveState{phase: pushing, waits: true}, waits},
			stuck:     {driveState{phase: stuck, waits: true}, waits},
			idle:      {in(answering), drives},
		},
		pushComes: {
			answering: {due(answering, duePush), nothing},
			pushing:   {due(pushing, duePush), nothing},
			stuck:     {due(stuck, duePush), nothing},
			idle:      {in(pushing), drives},
		},
		tickFires: {
			answering: {due(answering, dueTick), nothing},
			pushing:   {due(pushing, dueTick), nothing},
			stuck:     {due(stuck, dueTick), nothing},
			idle:      {due(idle, dueTick), pokes},
		},
		sealAsked: {
			answering: {seals(answering, dueSeal), nothing},
			pushing:   {seals(pushing, dueSeal), nothing},
			stuck:     {seals(stuck, dueSeal), nothing},
			idle:      {seals(idle, dueSeal), pokes},
		},
		sendStalls: {
			pushing: {in(stuck), yields},
		},
		driverStops: {
			answering: {in(idle), nothing},
			pushing:   {in(idle), nothing},
			stuck:     {in(idle), nothing},
		},
		streamEnds: {
			answering: {in(over), nothing},
			pushing:   {in(over), nothing},
			stuck:     {in(over), nothing},
			idle:      {in(over), nothing},
		},
	}
	for e := range numEvents {
		for p := range numPhases {
			want, named := table[e][p]
			if !named {
				want = outcome{in(p), nothing}
			}
			got, what := in(p).next(e)
			require.Equal(t, want, outcome{got, what}, "event %d in phase %d", e, p)
		}
	}
	for _, c := range []struct {
		name string
		from driveState
		e    event
		want outcome
	}{
		{
			"what is due when a driver stops has the Hub call", due(answering, duePush), driverStops,
			outcome{due(idle, duePush), pokes},
		},
		{
			"as does what a push finds due when it stops", due(stuck, dueTick), driverStops,
			outcome{due(idle, dueTick), pokes},
		},
		{
			"a request that waits comes before what is due, and does that too",
			driveState{phase: pushing, waits: true, due: dueTick}, driverStops,
			outcome{due(answering, dueTick), hands},
		},
		{
			"nothing is due of a stream that has ended", seals(answering, duePush|dueTick), streamEnds,
			outcome{in(over), nothing},
		},
		{"a seal is over", seals(answering, 0), sealDone, outcome{in(answering), nothing}},
	} {
		got, what := c.from.next(c.e)
		require.Equal(t, c.want, outcome{got, what}, c.name)
	}
	rest, took := due(pushing, dueTick|dueSeal).take()
	require.Equal(t, in(pushing), rest)
	require.Equal(t, dueTick|dueSeal, took)
}

// life is a stream with its part of the pool, one step after the other: what its own goroutine, a
// worker of the pool, its timer and its server may do, in any order.
type life struct {
	drive   driveState
	own     ownStep
	worker  workerStep
	behind  bool // a newer state is pending
	wanted  work // a tick has fired, or the seal was asked for, and nobody has done it
	started bool // the Hub knows push
	queued  bool // the pool is to call push
	again   bool // the pool queues it once more when push has returned
}

// ownStep is where the stream's own goroutine is.
type ownStep uint8

const (
	ownDrives ownStep = iota
	ownReads
	ownWaits      // for a push, with a request
	ownWaitsToEnd // for a push, when the client has left
	ownEnds
	ownEnded
)

// workerStep is where a worker is with the stream.
type workerStep uint8

const (
	workerAway workerStep = iota
	workerCalled
	workerDrives
	workerReturns
)

// rules are the driver's decisions, which a test may spoil.
type rules struct {
	next func(driveState, event) (driveState, effect)
	take func(driveState) (driveState, work)
}

// step is what may happen next. An outer step is of the world; others follow by themselves.
type step struct {
	name  string
	outer bool
	to    life
}

func (l life) on(r rules, e event) (life, effect) {
	var what effect
	l.drive, what = r.next(l.drive, e)
	switch what {
	case pokes:
		l = l.poke()
	case hands:
		switch l.own {
		case ownWaits:
			l.own = ownDrives
		case ownWaitsToEnd:
			l.own = ownEnds
		}
	}
	return l, what
}

// poke is what the pool does with a connection that wants to be called.
func (l life) poke() life {
	switch {
	case !l.started || l.queued:
	case l.worker != workerAway:
		l.again = true
	default:
		l.queued = true
	}
	return l
}

// catchesUp is what a driver does.
func (l life) catchesUp(r rules) life {
	var due work
	l.drive, due = r.take(l.drive)
	l.behind, l.wanted = false, l.wanted&^due
	return l
}

// steps are what may happen next.
func (l life) steps(r rules) (all []step) {
	add := func(name string, outer bool, to life) {
		if to != l {
			all = append(all, step{name, outer, to})
		}
	}
	l.outerSteps(r, func(name string, to life) { add(name, true, to) })
	l.ownSteps(r, func(name string, to life) { add(name, false, to) })
	l.workerSteps(r, func(name string, to life) { add(name, false, to) })
	return all
}

func (l life) outerSteps(r rules, add func(string, life)) {
	if l.own != ownEnded {
		offered := l
		offered.behind = true
		add("publish", offered.poke())
	}
	for _, e := range []event{tickFires, sealAsked, sendStalls} {
		to, _ := l.on(r, e)
		if l.own != ownEnded {
			to.wanted |= map[event]work{tickFires: dueTick, sealAsked: dueSeal}[e]
		}
		add("tick, seal or stall", to)
	}
	if l.own != ownReads {
		return
	}
	to, what := l.on(r, requestComes)
	request, leave := to, to
	request.own, leave.own = ownDrives, ownEnds
	if what == waits {
		request.own, leave.own = ownWaits, ownWaitsToEnd
	}
	add("request", request)
	add("leave", leave)
}

func (l life) ownSteps(r rules, add func(string, life)) {
	switch l.own {
	case ownDrives:
		stop := func(from life) life {
			from.started, from.own = true, ownReads // Start comes before the first stop
			if !l.started && from.behind {
				from = from.poke()
			}
			to, _ := from.on(r, driverStops)
			return to
		}
		add("answered", stop(l.catchesUp(r)))
		add("failed, or a tool's", stop(l))
	case ownEnds:
		to, _ := l.on(r, streamEnds)
		to.own, to.behind, to.wanted = ownEnded, false, 0
		add("ended", to)
	}
}

func (l life) workerSteps(r rules, add func(string, life)) {
	switch l.worker {
	case workerAway:
		if l.queued {
			l.queued, l.worker = false, workerCalled
			add("turn", l)
		}
	case workerCalled:
		to, what := l.on(r, pushComes)
		to.worker = workerReturns
		if what == drives {
			to.worker = workerDrives
			to = to.catchesUp(r)
		}
		add("push", to)
	case workerDrives:
		to, _ := l.on(r, driverStops)
		to.worker = workerReturns
		add("pushed", to)
	case workerReturns:
		l.worker = workerAway
		if l.again {
			l.again, l.queued = false, true
		}
		add("returned", l)
	}
}

// fault says what is wrong with a life in which nothing happens by itself any more.
func (l life) fault() string {
	switch {
	case l.own == ownWaits || l.own == ownWaitsToEnd:
		return "a request waits for nobody"
	case l.behind:
		return "a state is forgotten"
	case (l.drive.due|l.wanted) != 0 && l.drive.phase != over:
		return "what is due is forgotten"
	case l.drive.phase != idle && l.drive.phase != over:
		return "nobody drives, and nobody may"
	}
	return ""
}

// explore looks at all lives, and returns what is wrong with the first bad one.
func explore(r rules) string {
	begin := life{behind: true}
	seen, todo := map[life]bool{begin: true}, []life{begin}
	for len(todo) > 0 {
		l := todo[0]
		todo = todo[1:]
		quiet := true
		for _, s := range l.steps(r) {
			quiet = quiet && s.outer
			if !seen[s.to] {
				seen[s.to] = true
				todo = append(todo, s.to)
			}
		}
		if quiet {
			if f := l.fault(); f != "" {
				return f
			}
		}
	}
	settled := map[life]bool{}
	for l := range seen {
		if l.spins(r, settled) {
			return "it goes on for ever"
		}
	}
	return ""
}

// spins reports whether a life may come back to where it was although nothing happens outside.
// settled are the lives that it has seen: true if they do not, false while it looks.
func (l life) spins(r rules, settled map[life]bool) bool {
	if settles, known := settled[l]; known {
		return !settles
	}
	settled[l] = false
	for _, s := range l.steps(r) {
		if !s.outer && s.to.spins(r, settled) {
			return true
		}
	}
	settled[l] = true
	return false
}

// TestEveryOrderLeavesThePoolQuietAndForgetsNothing looks at every order of requests, pushes,
// ticks, seals, stalls and ends of a stream.
func TestEveryOrderLeavesThePoolQuietAndForgetsNothing(t *testing.T) {
	require.Empty(t, explore(rules{driveState.next, driveState.take}))
}

// TestEachFaultOfADriverIsFound: the test above sees lost and endless wake-ups.
func TestEachFaultOfADriverIsFound(t *testing.T) {
	next := driveState.next
	for _, c := range []struct {
		name, want string
		spoilt     func(s driveState, e event) (driveState, effect)
	}{
		{
			"a stream that has ended has its missed push made again",
			"it goes on for ever",
			func(s driveState, e event) (driveState, effect) {
				switch {
				case e == streamEnds:
					return driveState{phase: over, due: s.due}, nothing
				case s.phase == over && e == pushComes && s.due != 0:
					return s, pokes
				}
				return s.next(e)
			},
		},
		{
			"a push that finds a tool's request is lost",
			"a state is forgotten",
			func(s driveState, e event) (driveState, effect) {
				if e == pushComes && s.phase == answering {
					return s, nothing
				}
				return s.next(e)
			},
		},
		{
			"who stops does not look at what was missed",
			"what is due is forgotten",
			stopsQuietly(func(s driveState) bool { return s.phase == answering }),
		},
		{
			"a tick that meets a driver is lost",
			"what is due is forgotten",
			stopsQuietly(func(s driveState) bool { return s.due == dueTick }),
		},
		{
			"a tick that meets a driver is not noted",
			"what is due is forgotten",
			func(s driveState, e event) (driveState, effect) {
				if e == tickFires && s.phase != idle {
					return s, nothing
				}
				return s.next(e)
			},
		},
		{
			"a tick calls nobody",
			"what is due is forgotten",
			func(s driveState, e event) (driveState, effect) {
				to, what := s.next(e)
				if e == tickFires {
					what = nothing
				}
				return to, what
			},
		},
		{
			"a request that waits is not called",
			"a request waits for nobody",
			func(s driveState, e event) (driveState, effect) {
				if e == driverStops {
					s.waits = false
				}
				return s.next(e)
			},
		},
		{
			"who stops has the Hub call in any case",
			"it goes on for ever",
			func(s driveState, e event) (driveState, effect) {
				to, what := s.next(e)
				if e == driverStops && what == nothing {
					what = pokes
				}
				return to, what
			},
		},
	} {
		require.Equal(t, c.want, explore(rules{c.spoilt, driveState.take}), c.name)
	}
	require.Equal(t, "it goes on for ever", explore(rules{next, func(s driveState) (driveState, work) {
		return s, s.due
	}}), "what is due stays due")
}

// stopsQuietly is the machine but for a driver that stops in some states: it pokes nobody.
func stopsQuietly(when func(driveState) bool) func(driveState, event) (driveState, effect) {
	return func(s driveState, e event) (driveState, effect) {
		to, what := s.next(e)
		if e == driverStops && what == pokes && when(s) {
			what = nothing
		}
		return to, what
	}
}
