package imports

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// byName marks, in what the linker says, a function that calls a method by a name which is not
// known before it runs; used marks a type that methods are called of.
const (
	byName = "<ReflectMethod>"
	used   = "<UsedInIface>"
)

// TestMethodsThatNobodyCallsAreLeftOut: the linker leaves a method out when nothing calls it,
// unless some function of the program calls methods by computed names. The agent runs in every Pod,
// so it has no such function.
func TestMethodsThatNobodyCallsAreLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("links the agent")
	}
	lateenserve.LookAtSources(t)
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(makefile), "build -tags "+lateenserve.Tags+" "),
		"the Makefile builds another program than tests do")

	reachedFrom, culprits := linked(t)
	require.Greater(t, len(reachedFrom), 10_000, "the linker has not said what it links")
	if len(culprits) == 0 {
		return
	}
	chain := culprits[:1] // what it keeps because of the first may be a culprit too
	for from, ok := reachedFrom[chain[0]]; ok && !slices.Contains(chain, from); from, ok = reachedFrom[from] {
		chain = append([]string{from}, chain...)
	}
	require.Fail(t, "the linker keeps every method of every type, because "+culprits[0]+" calls methods by name",
		"Leave out what leads to it, most often text/template or html/template; a library may have a build tag for "+
			"that "+
			"(then it goes into lateenserve.Tags and the Makefile).\n%s", strings.Join(chain, "\n-> "))
}

// linked builds the binary, and returns from where the linker came to each thing in it first, and
// what it marked byName, in its order.
func linked(t *testing.T) (reachedFrom map[string]string, culprits []string) {
	t.Helper()
	build := lateenserve.GoBuild("-ldflags=-dumpdep", "-o",
		filepath.Join(t.TempDir(), "lateen-agent"),
		module+"cmd/lateen-agent")
	output, err := build.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, build.Start())
	reachedFrom = map[string]string{}
	var last []string // what go build says when it fails
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20) // names of generic types are long
	for lines.Scan() {
		from, to, ok := strings.Cut(lines.Text(), " -> ")
		if !ok {
			last = append(last, lines.Text())
			continue
		}
		if strings.HasSuffix(to, byName) {
			culprits = append(culprits, unmarked(to))
		}
		reachedFrom[unmarked(to)] = unmarked(from)
	}
	require.NoError(t, lines.Err())
	require.NoError(t, build.Wait(), strings.Join(last, "\n"))
	return reachedFrom, culprits
}

// unmarked is a name without the linker's marks.
func unmarked(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, byName), used), " ")
}
