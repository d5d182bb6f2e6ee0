package compile

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// child is set in the process that TestEveryProcessMakesTheSameBytes starts.
const child = "LATEEN_TEST_PRINT_STATES"

// The same mesh gives the same bytes and versions in every process. So replicas agree, and a proxy
// that reconnects, to another replica or after a restart, is sent nothing that it has. Maps iterate
// in another order in each process, and memory lies elsewhere.
func TestEveryProcessMakesTheSameBytes(t *testing.T) {
	here := statesOf(t)
	if os.Getenv(child) != "" {
		t.Log("states: " + here)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for range 3 {
		cmd := exec.Command(self, "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "states: "+here)
	}
}

// statesOf sums up all that the classes of a small mesh have.
func statesOf(t *testing.T) string {
	m := newMeshOf(t, 100)
	for i := range 20 {
		m.apply(routesOfService(i, i))
	}
	var lines []string
	for _, c := range m.compiler.classes {
		require.Len(t, c.variants.list, 1)
		versions := dump(c.state)
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			lines = append(lines, fmt.Sprint(c.key.Namespace, " ", name, " ", versions[name]))
		}
		lines = append(lines, fmt.Sprintf("%x", sha256.Sum256(everything(c.state))))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%d of %x", len(lines), sha256.Sum256([]byte(strings.Join(lines, "\n"))))
}
