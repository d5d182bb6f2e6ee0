package conformance

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/yaml"
)

// writeReport writes a report in the format of the Gateway API, the profiles by their names. The
// reasons of what is not run stand above it as comments, for which the format has no place.
func writeReport(t *testing.T, path string, r *confv1.ConformanceReport) {
	t.Helper()
	slices.SortFunc(r.ProfileReports, func(a, b confv1.ProfileReport) int { return cmp.Compare(a.Name, b.Name) })
	text, err := yaml.Marshal(r)
	require.NoError(t, err)
	var out bytes.Buffer
	fmt.Fprintln(&out, "# Written by make conformance. Features whose tests are not run:")
	for _, f := range slices.Sorted(maps.Keys(unsupported)) {
		fmt.Fprintf(&out, "#   %s: %s\n", f, unsupported[f])
	}
	out.Write(text)
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644)) //nolint:gosec // everybody may read it
}

// summarize says how many core tests of each profile have passed. A run of all of them fails if a
// profile has none, or one that did not run.
func summarize(t *testing.T, r *confv1.ConformanceReport) {
	t.Helper()
	whole := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	for _, p := range r.ProfileReports {
		n := p.Core.Statistics
		t.Logf("%s: %d core tests passed, %d failed, %d skipped", p.Name, n.Passed, n.Failed, n.Skipped)
		if whole {
			require.NotZero(t, n.Passed, p.Name)
			require.Zero(t, n.Skipped, p.Name)
		}
	}
	if whole {
		require.Len(t, r.ProfileReports, len(profiles()))
	}
}
