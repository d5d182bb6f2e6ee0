package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQueues shows each rule of when changes leave. A line of a script is a time in milliseconds,
// what happens then, and what the queues make of it: what leaves, and when they are to be asked
// again.
//
// What happens:
//
//	change a b     objects that are not endpoints change; "a!" leaves an error, which "a" mends,
//	               "a?" is a new Service without endpoints
//	remove a       an object goes away
//	configmap m    the mesh configuration changes
//	policy p       a policy changes, which limits who is served
//	unprotect p    a policy goes away
//	endpoints n/a  endpoints of Service a in namespace n change; "n/a*300" is 300 at once
//	delivered      the latest generation has reached nearly all proxies; "busy 80" is what this
//	               process has been busy for since, "envoy 20" an Envoy's main thread
//	reached        it has reached some more of them
//	grace 500      an endpoint that a slice has lost is given up at 500
//	synced         the source has delivered its initial state
//	look           nothing
//
// What the queues make of it:
//
//	leaves a b     a batch is published; "lost" is an endpoint that is given up with it
//	holds a b      a batch is applied, and held
//	drain first    events that have arrived already are taken in before it leaves
//	look 100       they are to be asked again at 100; without it, when something happens
//
// A script begins long after a mesh was published whose first generation has reached all proxies,
// unless it says "synced" itself.
func TestQueues(t *testing.T) {
	const ms = time.Millisecond
	istiod := Debounce{After: 100 * ms, Max: 10 * time.Second, Endpoints: true}
	istiodShort := Debounce{After: 100 * ms, Max: 250 * ms, Endpoints: true}
	unpaced := Debounce{After: 100 * ms, Max: 10 * time.Second}
	early := Debounce{After: 100 * ms, Early: 20 * ms, Max: 10 * time.Second, Endpoints: true}
	earlyShort := Debounce{After: 100 * ms, Early: 20 * ms, Max: 250 * ms, Endpoints: true}
	long := Debounce{After: time.Second, Max: 10 * time.Second, Endpoints: true}
	steady := early
	steady.Steady = 150 * ms
	for _, c := range []struct {
		rule     string
		debounce Debounce
		script   string
	}{
		// The initial state.
		{"nothing leaves before the initial state is complete, which does not wait then", early, `
			0     change a           =>
			900   endpoints n/b      =>
			5000  synced             => leaves a b`},
		{"an empty mesh is published too", early, `
			0     synced             => leaves nothing`},
		{"the first change after the initial state need not wait", early, `
			0     synced             => leaves nothing
			50    change a           => drain first, leaves a`},

		// As istiod does it: LATEEN_DEBOUNCE_EARLY is 0.
		{"changes leave once none has come for the quiet period", istiod, `
			0     change a           => look 100
			60    change b           => look 160
			100   look               => look 160
			160   look               => leaves a b`},
		{"no change waits longer than the maximum", istiodShort, `
			0     change a           => look 100
			90    change b           => look 190
			180   change c           => look 250
			250   look               => leaves a b c
			260   change d           => look 360`},
		{"of an object its latest change counts, in the place of the first", istiod, `
			0     change a b         => look 100
			10    change a           => look 110
			110   look               => leaves a b`},
		{"endpoints wait with all others", istiod, `
			0     endpoints n/a      => look 100
			60    change b           => look 160
			160   look               => leaves a b`},
		{"with PILOT_ENABLE_EDS_DEBOUNCE=false endpoints wait for nothing, and take nothing along", unpaced, `
			0     change a           => look 100
			60    endpoints n/b      => leaves b, look 100
			61    endpoints n/b      => leaves b, look 100
			100   look               => leaves a`},

		// Changes that leave early.
		{"the first change after a calm leaves at once, with what has arrived", early, `
			0     change a           => drain first, leaves a
			1000  change a           => drain first, leaves a`},
		{"what follows it within 20 ms, and within 20 ms of each other, is its tail, and waits for 20 ms", early, `
			0     change a           => drain first, leaves a
			15    change b           => look 35
			30    change c           => look 50
			50    look               => leaves b c
			65    change d           => look 165
			165   look               => leaves d`},
		{"what follows it more slowly waits for the quiet period", early, `
			0     change a           => drain first, leaves a
			30    change b           => look 130
			40    change c           => look 140
			140   look               => leaves b c`},
		{"a removal waits for 20 ms: it may be half of a replacement", early, `
			0     remove a           => look 20
			10    change a           => drain first, leaves a`},
		{"more than 32 objects are an apply that goes on, or a list", early, `
			0     change s*33        => look 100
			100   look               => leaves 33
			2000  change s*32        => drain first, leaves 32`},
		{"each extra batch is paid for by five that are none, or by a calm of a second", early, `
			0     change a           => drain first, leaves a
			10    change b           => look 30
			30    look               => leaves b
			200   change c           => look 300
			300   look               => leaves c
			450   change d           => look 550
			550   look               => leaves d
			700   change e           => look 800
			800   look               => leaves e
			950   change f           => look 1050
			1050  look               => leaves f
			1200  change g           => look 1300
			1300  look               => leaves g
			1450  change h           => drain first, leaves h
			1460  change i           => look 1480
			1480  look               => leaves i
			1600  change j           => look 1700
			1700  look               => leaves j
			2700  change k           => drain first, leaves k`},

		// Early batches that are held.
		{"what leaves an error is held for the quiet period", early, `
			0     change a!          => drain first, holds a, look 100
			100   look               => leaves`},
		{"it leaves with what mends it", early, `
			0     change a!          => drain first, holds a, look 100
			60    change a           => look 160
			160   look               => leaves a`},
		{"the tail that mends it waits for 20 ms", early, `
			0     change a!          => drain first, holds a, look 100
			10    change b           => look 30
			30    look               => holds b, look 110
			30    change a           => look 50
			50    look               => leaves a`},
		{"it is held for the maximum at most", earlyShort, `
			0     change a!          => drain first, holds a, look 100
			90    change b           => look 190
			180   change c           => look 250
			250   look               => leaves b c`},
		{"a tail may be held too", early, `
			0     change a           => drain first, leaves a
			10    change b!          => look 30
			30    look               => holds b, look 110
			110   look               => leaves`},
		{"a new Service is held until its endpoints come", early, `
			0     change a?          => drain first, holds a, look 100
			30    endpoints n/b      => look 100
			40    endpoints n/a      => leaves b a`},
		{"and for the quiet period at most, whatever comes", early, `
			0     change a?          => drain first, holds a, look 100
			60    change b           => look 100
			100   look               => leaves b`},
		{"one that leaves an error too waits for both", early, `
			0     change a?          => drain first, holds a, look 100
			10    change b!          => look 30
			20    endpoints n/a      => holds b a, look 110
			25    change b           => look 45
			45    look               => leaves b`},

		// Configuration that changes all the time.
		{"what never rests leaves after 250 ms, and then as its pushes allow", steady, `
			0     change a           => drain first, leaves a
			5     delivered          =>
			90    change b           => look 190
			180   change b           => look 280
			270   change b           => look 340
			340   look               => leaves b
			345   delivered          =>
			360   change b           => look 460
			450   change c           => look 510
			510   look               => leaves b c
			515   delivered          =>
			540   change d           => look 640`},
		{"after a quiet period it begins anew", steady, `
			0     change a           => drain first, leaves a
			5     delivered          =>
			90    change b           => look 190
			180   change b           => look 280
			270   change b           => look 340
			340   look               => leaves b
			345   delivered          =>
			450   change b           => look 550
			540   change b           => look 640
			630   change b           => look 700
			700   look               => leaves b`},
		{"pushes take a quarter of this process, and a twentieth of an Envoy's main thread", steady, `
			0     change a           => drain first, leaves a
			90    delivered busy 80  =>
			95    change b           => look 195
			180   change c           => look 280
			280   look               => leaves b c
			290   delivered envoy 20 =>
			380   change b           => look 480
			470   change b           => look 570
			570   look               => leaves b`},
		{"more than 200 a second are an overload, and are gathered", steady, `
			0     change s*33        => look 100
			90    change s*33        => look 190
			180   change s*33        => look 280
			270   change s*33        => look 370
			360   change s*33        => look 460
			450   change s*33        => look 550
			540   change s*33        => look 640
			640   look               => leaves 33`},
		{"what leaves so with an error is held, and tried again with what comes, for 2 s", steady, `
			0     change a!          => drain first, holds a, look 100
			90    change b           => look 150
			150   look               => holds b, look 190
			180   change a           => look 280
			270   change c           => look 300
			300   look               => leaves a c`},
		{"and not again before a quiet period, if nothing has mended it", steady, `
			0     change a           => drain first, leaves a
			5     delivered          =>
			90    change b!          => look 190
			180   change c           => look 280
			270   change c           => look 340
			340   look               => holds b c, look 370
			360   change c           => look 460
			450   change c           => look 490
			490   look               => holds c, look 550
			550   look               => leaves`},

		// Policies.
		{"a policy leaves at once, alone, and starts no quiet period", early, `
			0     change a           => drain first, leaves a
			30    change b           => look 130
			40    policy p           => drain first, leaves p, look 130
			130   look               => leaves b`},
		{"with istiod's debounce too", istiod, `
			0     change a           => look 100
			50    policy p           => drain first, leaves p, look 100
			100   look               => leaves a`},
		{"policies that come without a pause are gathered for 20 ms", istiod, `
			0     policy p           => drain first, leaves p
			1     policy p q         => drain first, leaves p q`},
		{"a policy waits for no storm, no pace and no overload", early, `
			0     change s*33        => look 100
			1     endpoints n/a*300  => look 100
			2     policy p           => drain first, leaves p, look 100
			3     policy q           => drain first, leaves q, look 100
			100   look               => leaves 333`},
		{"a policy that goes away waits for 20 ms: it may be half of a replacement", early, `
			0     unprotect p        => look 20
			10    policy p           => drain first, leaves p
			30    unprotect p        => look 50
			50    look               => leaves p`},
		{"with istiod's debounce it does not wait", istiod, `
			0     unprotect p        => drain first, leaves p`},
		{"a policy that leaves an error is held for the quiet period at most", early, `
			0     policy p!          => drain first, holds p, look 100
			50    policy q           => drain first, holds q, look 100
			100   look               => leaves`},
		{"it leaves with what mends it", early, `
			0     policy p!          => drain first, holds p, look 100
			10    change c           => look 100
			20    policy p           => drain first, leaves p, leaves c`},
		{"it takes along no configuration that waits, but for that of the mesh", early, `
			0     change a           => drain first, leaves a
			30    change b           => look 130
			40    policy p!          => drain first, holds p, look 130
			100   change b           => look 140
			140   look               => leaves, look 200
			145   policy q!          => drain first, holds q, look 200
			150   change b           => look 245
			160   configmap m        => holds b m, look 245
			245   look               => leaves`},
		{"and waits no longer than 100 ms where the quiet period is longer", long, `
			0     policy p!          => drain first, holds p, look 100
			100   look               => leaves`},
		{"the mesh configuration leaves with it", early, `
			0     change a           => drain first, leaves a
			30    configmap m        => look 130
			40    policy p           => drain first, leaves p m`},
		{"a held batch leaves with it, with what waits", early, `
			0     change a!          => drain first, holds a, look 100
			30    change b           => look 130
			40    policy p           => drain first, leaves p b`},
		{"what leaves with a policy that goes away is not held", early, `
			0     unprotect p        => look 20
			10    change a!          => drain first, leaves p a`},

		// Endpoints at the pace of the proxies.
		{"endpoints leave at once if the latest generation has reached nearly all proxies", early, `
			0     endpoints n/a      => drain first, leaves a
			5     delivered          =>
			20    endpoints n/a      => drain first, leaves a`},
		{"there are 20 ms between two batches of endpoints", early, `
			0     endpoints n/a      => drain first, leaves a
			1     delivered          =>
			5     endpoints n/a      => look 20
			20    look               => drain first, leaves a`},
		{"they wait for a generation on its way: 500 ms since it reached anybody, 1.5 s at most", early, `
			0     endpoints n/a      => drain first, leaves a
			10    endpoints n/a      => look 500
			400   reached            => look 900
			850   reached            => look 1350
			1200  reached            => look 1500
			1500  look               => leaves a`},
		{"it leaves when that is delivered", early, `
			0     endpoints n/a      => drain first, leaves a
			10    endpoints n/b      => look 500
			90    delivered          => leaves b`},
		{"pushing takes half of the time at most, but for 250 ms", early, `
			0     endpoints n/a      => drain first, leaves a
			600   delivered          =>
			610   endpoints n/a      => look 950
			950   look               => leaves a`},
		{"they take no other change along, and are taken along by others", early, `
			0     change a           => drain first, leaves a
			30    change b           => look 130
			40    delivered          => look 130
			50    endpoints n/c      => drain first, leaves c, look 130
			60    endpoints n/d      => look 130
			130   look               => leaves b d`},
		{"they leave with what is held", early, `
			0     change a!          => drain first, holds a, look 100
			50    endpoints n/b      => look 100
			100   look               => leaves b`},

		// Overload.
		{"many endpoints leave as soon as 2,000 a second allows", early, `
			0     endpoints n/a*101  => look 50
			50    look               => leaves 101`},
		{"250 at once from one namespace are an overload: they are gathered, and others do not wait", early, `
			0     endpoints n/a*300  => look 100
			10    endpoints m/b      => leaves b, look 510
			11    delivered          => look 100
			100   look               => leaves 300`},
		{"an overload leaves when 2,000 a second have caught up with it", early, `
			0     endpoints n/a*300  => look 100
			90    endpoints n/a*20   => look 134.5
			134   look               => look 134.5
			135   look               => leaves 300`},
		{"or when it pauses for the quiet period, or at the maximum", earlyShort, `
			0     endpoints n/a*300  => look 100
			90    endpoints n/a*300  => look 190
			180   endpoints n/a*300  => look 250
			250   look               => leaves 300`},
		{"overloaded namespaces leave as one batch, for which endpoints of others do not wait", early, `
			0     endpoints n/a*300  => look 100
			1     endpoints m/b*300  => look 100
			100   look               => leaves 600
			110   endpoints o/c      => drain first, leaves c`},
		{"any other batch takes it along", early, `
			0     endpoints n/a*300  => look 100
			10    change b           => leaves 301`},
		{"it is over once all its changes but one have leaked out, and have left", early, `
			0     endpoints n/a*300  => look 100
			100   look               => leaves 300
			110   endpoints n/a      => look 125
			125   look               => leaves a
			200   endpoints n/a      => drain first, leaves a`},

		// Endpoints that slices have lost.
		{"an endpoint is given up at the end of its grace, without anything else", early, `
			0     grace 300          => look 300
			290   change a           => drain first, leaves a, look 300
			300   look               => leaves lost`},
		{"where endpoints wait with all others, it waits with what does", istiod, `
			0     grace 300          => look 300
			290   change a           => look 390
			390   look               => leaves a lost`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r := newQueuesRun(c.debounce, strings.Contains(c.script, "synced"))
			for line := range strings.Lines(strings.TrimSpace(c.script)) {
				happens, want, _ := strings.Cut(strings.TrimSpace(line), "=>")
				got := r.line(t, strings.Fields(happens))
				require.Equal(t, strings.TrimSpace(want), got, "%s", happens)
			}
		})
	}
}
