package change

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var zeroSeed = flag.Uint64("zero.seed", 1, "order of the events of TestNoRequestFailsInRandomChangesAndRestarts")

const (
	zeroDrain = 2 * time.Second
	// zeroScaleEvents is how often some Deployment is given another number of replicas.
	zeroScaleEvents = 48
	// zeroRollouts are those of the service of one replica.
	zeroRollouts = 3
)

// zero is a mesh under load to which things happen.
type zero struct {
	*mesh
	t       *testing.T
	random  *rand.Rand
	load    *zeroLoad
	streams *zeroStreams
	absent  *absences
	// replicas are those that were asked for.
	replicas map[string]int
	edits    []edit
	rollouts int
	done     map[string]int // events by kind
}

// edit is a change of a route or a policy.
type edit struct{ object, from, to string }

// scaled are the Deployments that are scaled, and between how many replicas.
var scaled = []struct {
	file, deployment string
	least, most      int
}{
	{"many.yaml", "many-v1", 1, 4}, {"many.yaml", "many-v2", 1, 3}, {"front.yaml", "front", 1, 3},
	{"lines.yaml", "lines", 1, 3},
	{"solo.yaml", "solo", 0, 1}, {"gateway.yaml", "ingressgateway", 1, 2},
}

// TestNoRequestFailsInRandomChangesAndRestarts does to a mesh under load, in a random order, what
// happens to meshes: Deployments are scaled, also from one replica to none and back; a service of
// one replica is rolled out; routes and policies are edited; and the control plane is killed twice,
// between an event and its push, and things go on happening while it is away. No request may fail
// but those for the service that has no replica at the time.
func TestNoRequestFailsInRandomChangesAndRestarts(t *testing.T) {
	z := startZero(t)
	steps := z.plan()
	for i, step := range steps {
		step()
		z.load.goesOn(t)
		if i == len(steps)/3 {
			z.killAt(func() {
				z.scaleTo("many.yaml", "many-v1", 5-z.replicas["many-v1"])
			}, `default/many-v1-\S+: (leaving|ready at)`)
		}
		if i == 2*len(steps)/3 {
			z.killAt(z.rollOutOne, `default/one-\S+: leaving`)
		}
	}
	z.allSettled()
	z.report()
}

func startZero(t *testing.T) *zero {
	dir := filepath.Join(t.TempDir(), "zero")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "zero"))))
	z := &zero{
		mesh: start(t, dir, "--separate-control-plane", "--drain", zeroDrain.String()), t: t,
		random: rand.New(rand.NewPCG(*zeroSeed, 0)),
		absent: &absences{all: map[string][]absence{}},
		done:   map[string]int{},
		replicas: map[string]int{
			"many-v1":        2,
			"many-v2":        1,
			"front":          1,
			"lines":          2,
			"solo":           1,
			"ingressgateway": 1,
			"one":            1,
			"caller":         1,
		},
		edits: []edit{
			{"VirtualService default/many", "subset: v1\n      weight: 50", "subset: v1\n      weight: 90"},
			{"DestinationRule default/many", "simple: ROUND_ROBIN", "simple: LEAST_REQUEST"},
			{"VirtualService default/many", "timeout: 20s", "timeout: 25s"},
			{"DestinationRule default/many", "connectTimeout: 5s", "connectTimeout: 6s"},
			{"VirtualService default/many", "subset: v1\n      weight: 90", "subset: v1\n      weight: 10"},
			{"DestinationRule default/many", "simple: LEAST_REQUEST", "simple: RANDOM"},
		},
	}
	outbound := z.outbound("caller")
	z.streams = newZeroStreams(t, z.mesh, outbound+":9400", zeroDrain)
	z.streams.cover(t, z.running("lines"))
	z.load = startZeroLoad(t, outbound+":15080", z.gateway, z.absent)
	z.load.goesOn(t)
	t.Logf("seed %d (-zero.seed)", *zeroSeed)
	return z
}

// plan is a random order of what will happen.
func (z *zero) plan() (steps []func()) {
	for i := range zeroScaleEvents {
		s := scaled[i%len(scaled)]
		n := s.least + z.random.IntN(s.most-s.least)
		steps = append(steps, func() {
			if n >= z.replicas[s.deployment] {
				n++ // another number than there are
			}
			z.scaleTo(s.file, s.deployment, n)
		})
	}
	for range zeroRollouts - 1 { // one comes with the second kill
		steps = append(steps, z.rollOutOne)
	}
	for range z.edits {
		steps = append(steps, z.editNext)
	}
	z.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	return steps
}

// scaleTo scales a Deployment that has settled. That it settles again is waited for before its next
// event, while others go on.
func (z *zero) scaleTo(file, deployment string, n int) {
	z.t.Helper()
	z.settledAt(deployment)
	before := z.replicas[deployment]
	z.replicas[deployment] = n
	z.done["scale events"]++
	if n == 0 {
		z.absent.begin(deployment)
		z.done["1 → 0 → 1"]++
		z.write0(file, deployment, n)
		z.settledAt(deployment)
		had := [2]int{z.load.noReplica("sidecar", deployment), z.load.noReplica("gateway", deployment)}
		await(z.t, "requests that meet no replica", func() bool {
			return z.load.noReplica("sidecar", deployment) > had[0] && z.load.noReplica("gateway", deployment) > had[1]
		})
		return
	}
	z.write0(file, deployment, n)
	if before == 0 {
		z.settledAt(deployment)
		z.awaitHost(deployment)
		z.absent.end(deployment)
	}
}

func (z *zero) write0(file, deployment string, n int) {
	z.t.Helper()
	z.scale(file, deployment, strconv.Itoa(n))
}

// settledAt waits until a Deployment has the pods that were asked for, and each replica of the TCP
// service its stream.
func (z *zero) settledAt(deployment string) {
	z.t.Helper()
	z.settled(deployment, z.replicas[deployment])
	if deployment == "lines" {
		z.streams.cover(z.t, z.running("lines"))
	}
}

func (z *zero) allSettled() {
	z.t.Helper()
	for deployment := range z.replicas {
		z.settledAt(deployment)
	}
	z.load.goesOn(z.t)
}

// rollOutOne replaces the only replica of a service by a new one.
func (z *zero) rollOutOne() {
	z.t.Helper()
	z.settledAt("one")
	z.rollouts++
	z.done["rollouts of one replica"]++
	before := only(z.t, z.running("one"))
	z.edit("one.yaml", fmt.Sprintf(`"--version=v%d"`, z.rollouts), fmt.Sprintf(`"--version=v%d"`, z.rollouts+1))
	z.screen.until(z.t, 0, "one to be rolled out", func(lines []string) bool {
		now := running(lines, "one")
		_, old := now[before]
		return len(now) == 1 && !old || slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasSuffix(l, "default/"+before+": leaving")
		})
	})
}

func (z *zero) editNext() {
	z.t.Helper()
	e := z.edits[0]
	z.edits = z.edits[1:]
	kind, _, _ := strings.Cut(e.object, " ")
	z.done["edits of a "+kind]++
	z.edit("traffic.yaml", e.from, e.to)
}

// killAt kills the control plane between an event and its push: as soon as the mesh tells of the
// event. Then other things happen before it is back.
func (z *zero) killAt(event func(), told string) {
	z.t.Helper()
	z.settledAt("many-v2")
	z.settledAt("one")
	mark := z.screen.mark()
	pid := z.controlPlane()
	event()
	z.screen.await(z.t, mark, told)
	require.NoError(z.t, syscall.Kill(pid, syscall.SIGKILL))
	began := time.Now()
	z.done["kills of the control plane"]++
	z.scaleTo("many.yaml", "many-v2", 1+z.replicas["many-v2"]%3)
	z.screen.await(z.t, mark, `control-plane: crashed: signal: killed; starts again in`)
	z.screen.await(z.t, mark, `control-plane: ready`)
	z.t.Logf("the control plane was killed and was ready again after %v", time.Since(began).Round(time.Millisecond))
	require.NotEqual(z.t, pid, z.controlPlane())
	z.load.goesOn(z.t)
}

// controlPlane is the process id of the control plane.
func (m *mesh) controlPlane() int {
	m.t.Helper()
	pid, runs := m.findControlPlane()
	require.True(m.t, runs, "the control plane does not run")
	return pid
}

func (m *mesh) findControlPlane() (pid int, runs bool) {
	m.t.Helper()
	for _, p := range m.children() {
		if strings.Contains(commandOf(p.pid), " control-plane ") {
			pid, err := strconv.Atoi(p.pid)
			require.NoError(m.t, err)
			return pid, true
		}
	}
	return 0, false
}

// report requires that nothing failed.
func (z *zero) report() {
	z.t.Helper()
	table, failures := z.load.table()
	streams, cut := z.streams.report()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", table, streams)
	for _, kind := range slices.Sorted(maps.Keys(z.done)) {
		fmt.Fprintf(&b, "%d %s\n", z.done[kind], kind)
	}
	fmt.Fprintf(&b, "attempts that Envoys made again: %s\n", z.retries())
	z.t.Logf("\n%s", b.String())
	for i, f := range failures {
		if i == 20 {
			z.t.Logf("… and %d more", len(failures)-i)
			break
		}
		z.t.Logf("failed %s", f)
	}
	require.GreaterOrEqual(z.t, z.done["scale events"], 40)
	require.Zero(z.t, len(failures), "failed requests")
	require.Empty(z.t, cut, "streams")
	met := z.counter(z.outbound("caller"), `^cluster\.outbound\|9080\|\|solo\..*\.upstream_cx_none_healthy$`)
	require.Equal(z.t, met, z.load.noReplica("sidecar", "solo"), "requests that Envoy says it had no host for")
}
