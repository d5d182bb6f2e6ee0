package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// checker is a test binary with all faults in it, and what it runs.
type checker struct {
	pkg    string        // of packages; the directory of it that has the tests counts
	tests  []string      // that draw nothing; none for all, also those that draw
	drawn  []string      // those that draw lives, in the order in which they are tried
	sub    string        // which of the tests' parts
	checks int           // lives that are drawn with each seed
	within time.Duration // it ends: what hangs has failed
	dir    string        // below internal
	binary string
}

// The checkers, by what they look at.
func checkers() (model, world, problems, loop, reads, view, session *checker) {
	model = &checker{pkg: "model", tests: []string{"TestEveryFieldCountsInTheFingerprint"}}
	world = &checker{pkg: "state", tests: []string{
		"TestGatewaysWithPoliciesThatDoNotReachTheirWorkloadsStayClosed",
		"TestDelegationsFollowTheirObjects",
		"TestAHostNameIsAnEndpointWhereItIsLookedUp",
	}, drawn: []string{"TestSnapshotEqualsFromNothing", "TestAttachmentsEqualFromNothing"}, checks: 300}
	problems = &checker{
		pkg:   "validate",
		tests: []string{"TestProblemsOfADelegateFollowItsRoots"}, drawn: []string{"TestProblemsEqualFromNothing"},
		checks: 300,
	}
	loop = &checker{
		pkg:    "schedule",
		drawn:  []string{"TestChangesOfAnObjectStayInOrder", "TestWhatIsOfferedIsWhatIsListedOrKept"},
		checks: 30, within: 2 * time.Minute,
	}
	reads = &checker{
		pkg:   "scope",
		tests: []string{"TestATelemetryOfEachLevelIsInForce"}, drawn: []string{"TestNoMethodReadsMoreThanItRecords"},
		checks: 100,
	}
	view = &checker{pkg: "compile", tests: []string{
		"TestGatewayAndItsRoutesChangeTogether",
		"TestAHostBecomesThatOfAnotherListener",
		"TestARouteToAnotherNameMakesItsServiceVisible",
		"TestASidecarBeginsAndCeasesToHideAHost",
		"TestNamesInStatisticsFollowTheMeshAndTheService",
		"TestWhoMayHaveSecretsTellsClassesApart",
		"TestOnePartAloneChanges",
		"TestOnePartOfAListenerForCallsChanges",
		"TestAListenerForCallsFollowsItsServices",
		"TestWorkloadsWithOtherListenersForCallsShareNothing",
		"TestOnePartOfAPolicyChanges",
		"TestOnePartOfAPatchChanges",
		"TestPatchesSayWhatTheyMatch",
		"TestTheOrderOfPatchesChanges",
		"TestAGatewayRenumbersATable",
		"TestAnAliasOfTheTrustDomainChanges",
		"TestAPolicyBesideAnAuthorizerChangesNoListener",
		"TestAGatewayAloneIsDeployedOtherwise",
		"TestOnePartOfAClashChanges",
		"TestOnePartOfAShownServiceChanges",
		"TestOnePartOfHowZonesShareChanges",
		"TestOnePartOfSessionsChanges",
		"TestOnePartOfALookupChanges",
		"TestEachPlaceHasItsOwnOrderOfLookups",
		"TestAPlaceWithoutAPartIsLeftOut",
		"TestProxiesOfOneAndOfBothFamiliesHaveTheirOwnAssignments",
		"TestOnePortOfInterceptionChanges",
		"TestTheDetectionTimeoutChanges",
		"TestWorkloadsOfANamespaceKeepTheirRulesInAStep",
		"TestEqualAssignmentsOfTwoServices",
		"TestVariedEndpointsChangeBetweenChunks",
		"TestRoutesOfOneNamespaceAreItsOwn",
		"TestClassFromBaseSeesItsOwnRules",
		"TestClassFromBaseSeesItsOwnRoutes",
		"TestPodsSelectedByNameHaveTheirOwnClass",
		"TestProxiesWithOtherSettingsAreOtherClasses",
		"TestProxiesThatLookNamesUpAreOtherClasses",
		"TestNamesBeginAndCeaseToBeLookedUp",
		"TestUnknownHostsBeginAndCeaseToBeLookedUp",
		"TestProxiesThatLeaveTogetherTakeTheirClassAlong",
	}, drawn: []string{
		"TestIncrementalEqualsFromNothing",
		"TestAttachmentsAreCompiledAsFromNothing",
		"TestWhatClassesShareIsWhatEachComesTo",
	}, checks: 300}
	session = &checker{
		pkg:    "session",
		tests:  []string{"TestScripts"},
		drawn:  []string{"TestClientEndsWithTheSet"},
		sub:    "/^(p14_ahead|p1[89]|p27|leds$)",
		checks: 300,
	}
	return model, world, problems, loop, reads, view, session
}

// find finds the directory of the checker's tests.
func (c *checker) find(t *testing.T, tr *tree) {
	c.dir = packages[c.pkg][0]
	for _, test := range slices.Concat(c.tests, c.drawn) {
		found := tr.functions[c.pkg+"."+test]
		require.Len(t, found, 1, "%s in %s: mend checkers in mutants_test.go", test, c.pkg)
		c.dir = filepath.Dir(found[0].file)
	}
}

// pattern matches tests, or all if there are none.
func (c *checker) pattern(tests []string) string {
	if tests == nil {
		return "^Test"
	}
	return "^(" + strings.Join(tests, "|") + ")$" + c.sub
}

// everything is the variable that asks for all faults (make mutants).
const everything = "LATEEN_MUTANTS_ALL"

// TestEveryFaultHasItsPlace finds the node of each fault, and tells them all with -v. It takes a
// moment, so that whoever changes a function hears of it at once.
func TestEveryFaultHasItsPlace(t *testing.T) {
	tr := readTree(t)
	for _, f := range faults() {
		t.Run(f.name(), func(t *testing.T) {
			file, node := tr.find(t, f.place)
			by := "is left out"
			if f.instead != "" {
				tr.requireNames(t, f.instead)
				by = "becomes " + tr.with(f.instead, file, node)
			}
			t.Logf("internal/%s: %s %s: %s", tr.files.Position(node.Pos()), tr.text(file, node), by, f.what)
		})
	}
	writeOverlay(t, tr, nil)
}

// TestEveryCheckerHasItsTests finds the tests that are to find faults.
func TestEveryCheckerHasItsTests(t *testing.T) {
	tr := readTree(t)
	model, world, problems, loop, reads, view, session := checkers()
	for _, c := range []*checker{model, world, problems, loop, reads, view, session} {
		c.find(t, tr)
	}
}

// TestEveryFaultIsFound plants each fault, alone, and wants a checker to fail. Without
// LATEEN_MUTANTS_ALL it plants a sixteenth of them, by their names: the same ones each time, so
// that a change is not held up by a fault that it has nothing to do with.
func TestEveryFaultIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds tests, and runs them hundreds of times")
	}
	edges := faults()
	model, world, problems, loop, reads, view, session := checkers()
	watch(t)
	tr := readTree(t)
	overlay := writeOverlay(t, tr, edges)
	built := map[string]string{}
	for _, c := range []*checker{model, world, problems, loop, reads, view, session} {
		c.find(t, tr)
		if built[c.dir] == "" {
			built[c.dir] = c.build(t, overlay)
		}
		c.binary = built[c.dir]
	}
	by := map[string][]*checker{
		"model":    {view},
		"state":    {world, problems, view},
		"validate": {problems},
		"schedule": {loop},
		"scope":    {reads, view},
		"compile":  {view},
		"session":  {session},
	}
	for i, f := range edges {
		if !chosen(f.what) {
			continue
		}
		name := "edge: " + f.name()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipMissed(t, name)
			word, _, _ := strings.Cut(f.function, ".")
			requireFound(t, by[word], fmt.Sprint("LATEEN_MUTANT=", i+1))
		})
	}
	fields := fieldsOf(t, view, model) // the model knows all of equality
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if by, name := fields[field], "field: "+field; harmless[field] == "" && chosen(name) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				skipMissed(t, name)
				requireFound(t, []*checker{by}, "LATEEN_MUTANT_FIELD="+field)
			})
		}
	}
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(harmless)), func(field string) bool {
		return fields[field] != nil
	})
	require.Empty(t, gone, "there are no such fields any more: mend the list of harmless ones")
}

// skipMissed skips a fault that is known to be missed. With LATEEN_MUTANTS_ALL it is tried, and
// fails.
func skipMissed(t *testing.T, name string) {
	t.Helper()
	if why := missed[name]; why != "" && os.Getenv("LATEEN_MUTANTS_ALL") == "" {
		t.Skip("not found yet: ", why)
	}
}

// watch looks at the directories whose files the checkers are built of, so that go test runs again
// when one changes.
func watch(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(root, "internal/translate/*"))
	require.NoError(t, err)
	others := []string{"source", "testkit/meshlife", "testkit/envoymodel"}
	for _, pkg := range append(others, slices.Concat(slices.Collect(maps.Values(packages))...)...) {
		dirs = append(dirs, filepath.Join(root, "internal", pkg))
	}
	for _, dir := range dirs {
		_, err := os.ReadDir(dir)
		require.NoError(t, err)
	}
}

func (f fault) name() string { return f.function + ": " + f.what }

// chosen tells whether a fault of this name is planted in this run. An edge goes by what it is,
// wherever it is.
func chosen(name string) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // it never fails
	return os.Getenv(everything) != "" || sum.Sum32()%16 == 0
}

func (c *checker) build(t *testing.T, overlay string) (binary string) {
	binary = filepath.Join(t.TempDir(), c.pkg+".test")
	cmd := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/"+c.dir)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// fieldsOf runs checkers without a fault: they find nothing, and tell the fields of keys that they
// saw. Each field is of the last checker that saw it.
func fieldsOf(t *testing.T, all ...*checker) map[string]*checker {
	fields, mutex := map[string]*checker{}, sync.Mutex{}
	rank := func(c *checker) int { return slices.Index(all, c) }
	t.Run("without a fault", func(t *testing.T) {
		for _, c := range all {
			runs := [][]string{c.tests}
			for _, test := range c.drawn {
				runs = append(runs, []string{test})
			}
			for _, tests := range runs {
				t.Run(c.pkg, func(t *testing.T) {
					t.Parallel()
					fails, out := c.run(t, "LATEEN_MUTANT_SHOW=1", tests, 1)
					require.False(t, fails, "%s fails without a fault:\n%s", c.pkg, out)
					mutex.Lock()
					defer mutex.Unlock()
					for line := range strings.Lines(out) {
						field, ok := strings.CutPrefix(strings.TrimSpace(line), "MUTANT_FIELD ")
						if ok && rank(c) >= rank(fields[field]) {
							fields[field] = c
						}
					}
				})
			}
		}
	})
	require.NotEmpty(t, fields)
	return fields
}

// requireFound wants one of the checkers to fail with a fault. What draws nothing is done in
// moments, and comes first. All draw lives with one seed before any draws with the next: most
// faults are found with the first, but by the last checker.
func requireFound(t *testing.T, all []*checker, fault string) {
	for _, c := range all {
		if found, _ := c.run(t, fault, c.tests, 1); found {
			t.Logf("found by %s", c.pkg)
			return
		}
	}
	for seed := 1; seed <= seeds; seed++ {
		for _, c := range all {
			for _, test := range c.drawn {
				if found, _ := c.run(t, fault, []string{test}, seed); found {
					t.Logf("found by %s.%s, seed %d", c.pkg, test, seed)
					return
				}
			}
		}
	}
	require.Fail(t, "no checker finds the fault", "the edge or field is of no use, or no test draws what needs it (%s)",
		fault)
}

// patience is how many seconds of a processor a checker may take: how long it takes depends on what
// else runs.
const patience = 15 * 60

// seeds are how often a checker draws other lives for a fault that hides.
const seeds = 5

// run tells whether tests of a checker fail, and what they say.
func (c *checker) run(t *testing.T, fault string, tests []string, seed int) (fails bool, out string) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf(`ulimit -t %d && exec "$0" "$@"`, patience),
		c.binary, "-test.run", c.pattern(tests), fmt.Sprint("-rapid.seed=", seed),
		fmt.Sprint("-rapid.checks=", c.checks),
		// the same draws each time
		fmt.Sprint("-test.timeout=", c.within), "-rapid.nofailfile", "-rapid.shrinktime=0s", "-test.failfast")
	// as many of them run at a time as there are processors
	cmd.Env = append(os.Environ(), fault, "GOMAXPROCS=1", "GOGC=400")
	cmd.Dir = filepath.Join(root, "internal", c.dir) // where its scripts are
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	require.Less(t, used, patience*time.Second, "a checker computes without end")
	return err != nil, buf.String()
}
