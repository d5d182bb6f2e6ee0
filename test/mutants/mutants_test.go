package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// checker is a test binary with all faults in it, and what it runs.
type checker struct {
	pkg, tests string
	checks     int           // lives that are drawn with each seed
	within     time.Duration // it ends: what hangs has failed
	binary     string
}

// The checkers, by what they look at.
func checkers() (model, world, loop, view, session *checker) {
	return &checker{pkg: "model", tests: "^TestEveryFieldCountsInTheFingerprint$"},
		&checker{pkg: "world", tests: "^TestWorldEqualsFromNothing$", checks: 300},
		&checker{pkg: "world", tests: "^Test", checks: 30, within: 40 * time.Second},
		&checker{pkg: "view", tests: "^(TestGatewayAndItsRoutesChangeTogether|TestOnePartAloneChanges|TestOnePartOfAClashChanges|TestIncrementalEqualsFromNothing|" +
			"TestEqualAssignmentsOfTwoServices|TestVariedEndpointsChangeWhileAClassGrows|TestRoutesOfOneNamespaceAreItsOwn|" +
			"TestKinThatSeeA(Rule|Route)Otherwise|TestPodsOfAStatefulSetThatAreMeantByName|TestProxiesThatAskForOtherThings)$", checks: 300},
		&checker{pkg: "xds/session", tests: "^(TestScripts|TestClientEndsWithTheSet)$/^(p14_ahead|p1[89]|leds$)", checks: 300}
}

// ofTheLoop are files of world that decide when changes leave: whoever makes worlds from nothing does not see them.
var ofTheLoop = []string{"world/early.go", "world/first.go", "world/loop.go", "world/pace.go", "world/storm.go", "world/bridge.go"}

// everything is the variable that asks for all faults (make mutants).
const everything = "LATEEN_MUTANTS_ALL"

// TestEveryFaultHasItsPlace finds the text of each fault. It takes a moment, so that whoever changes a text hears of it at once.
func TestEveryFaultHasItsPlace(t *testing.T) {
	for _, f := range faults() {
		t.Run(nameOf(f.file, f.function, f.what), func(t *testing.T) { f.find(t) })
	}
	writeOverlay(t, nil)
}

// TestEveryFaultIsFound plants each fault, alone, and wants a checker to fail. Without LATEEN_MUTANTS_ALL it plants a quarter of them,
// by their names: the same ones each time, so that a change is not held up by a fault that it has nothing to do with.
func TestEveryFaultIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds tests, and runs them hundreds of times")
	}
	edges := faults()
	model, world, loop, view, session := checkers()
	watch(t)
	overlay := writeOverlay(t, edges)
	model.build(t, overlay)
	world.build(t, overlay)
	loop.binary = world.binary
	view.build(t, overlay)
	session.build(t, overlay)
	for i, f := range edges {
		name := nameOf("edge", f.file, f.function, f.what)
		if !chosen(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipMissed(t, name)
			by := []*checker{view}
			switch {
			case slices.Contains(ofTheLoop, f.file):
				by = []*checker{loop}
			case strings.HasPrefix(f.file, "world/"):
				by = []*checker{world, view}
			case strings.HasPrefix(f.file, "xds/session/"):
				by = []*checker{session}
			}
			requireFound(t, by, fmt.Sprint("LATEEN_MUTANT=", i+1))
		})
	}
	fields := map[string]*checker{}
	for _, c := range []*checker{view, model} {
		for _, field := range c.fields(t) {
			fields[field] = c // the model knows all of equality
		}
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if by, name := fields[field], nameOf("field", field); harmless[field] == "" && chosen(name) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				skipMissed(t, name)
				requireFound(t, []*checker{by}, "LATEEN_MUTANT_FIELD="+field)
			})
		}
	}
	for field := range harmless {
		require.Contains(t, fields, field, "there is no such field any more: mend the list of harmless ones")
	}
}

// skipMissed skips a fault that is known to be missed. With LATEEN_MUTANTS_ALL it is tried, and fails.
func skipMissed(t *testing.T, name string) {
	t.Helper()
	if why := missed[name]; why != "" && os.Getenv("LATEEN_MUTANTS_ALL") == "" {
		t.Skip("not found yet: ", why)
	}
}

// watch looks at the directories whose files the checkers are built of, so that go test runs again when one changes.
func watch(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(root, "internal/translate/*"))
	require.NoError(t, err)
	for _, pkg := range []string{"source", "model", "world", "scope", "view", "xds/session", "testkit/meshlife", "testkit/envoymodel"} {
		dirs = append(dirs, filepath.Join(root, "internal", pkg))
	}
	for _, dir := range dirs {
		_, err := os.ReadDir(dir)
		require.NoError(t, err)
	}
}

func nameOf(parts ...string) string {
	return strings.ReplaceAll(strings.Join(parts, ": "), "/", ".")
}

// chosen tells whether a fault is planted in this run.
func chosen(name string) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // it never fails
	return os.Getenv(everything) != "" || sum.Sum32()%4 == 0
}

func (c *checker) build(t *testing.T, overlay string) {
	c.binary = filepath.Join(t.TempDir(), filepath.Base(c.pkg)+".test")
	cmd := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", c.binary, "./internal/"+c.pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// fields runs a checker without a fault: it finds nothing, and tells the fields of keys that it saw.
func (c *checker) fields(t *testing.T) []string {
	fails, out := c.run(t, "LATEEN_MUTANT_SHOW=1", 1)
	require.False(t, fails, "%s fails without a fault:\n%s", c.pkg, out)
	var fields []string
	for line := range strings.Lines(out) {
		if field, ok := strings.CutPrefix(strings.TrimSpace(line), "MUTANT_FIELD "); ok {
			fields = append(fields, field)
		}
	}
	require.NotEmpty(t, fields)
	return fields
}

func requireFound(t *testing.T, all []*checker, fault string) {
	for _, c := range all {
		if c.finds(t, fault) {
			return
		}
	}
	require.Fail(t, "no checker finds the fault", "the edge or field is of no use, or no test draws what needs it (%s)", fault)
}

// seeds are how often a checker draws other lives for a fault that hides.
const seeds = 5

// finds tells whether a checker fails with a fault, with one seed or another.
func (c *checker) finds(t *testing.T, fault string) bool {
	for seed := 1; seed <= seeds; seed++ {
		if found, _ := c.run(t, fault, seed); found {
			t.Logf("found by %s, seed %d", c.pkg, seed)
			return true
		}
	}
	return false
}

// run tells whether a checker fails, and what it says.
func (c *checker) run(t *testing.T, fault string, seed int) (fails bool, out string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, "-test.run", c.tests, fmt.Sprint("-rapid.seed=", seed), fmt.Sprint("-rapid.checks=", c.checks),
		fmt.Sprint("-test.timeout=", c.within), "-rapid.nofailfile", "-rapid.shrinktime=0s", "-test.failfast") // the same draws each time
	cmd.Env = append(os.Environ(), fault, "GOMAXPROCS=1", "GOGC=400") // as many of them run at a time as there are processors
	cmd.Dir = filepath.Join(root, "internal", c.pkg)                  // where its scripts are
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "a checker takes too long")
	return err != nil, buf.String()
}
