package docs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// conformanceReport has what the table shows of a report of the Gateway API.
type conformanceReport struct {
	GatewayAPIVersion string `json:"gatewayAPIVersion"`
	Profiles          []struct {
		Name           string
		Core, Extended *conformanceResult
	}
}

type conformanceResult struct {
	Statistics  struct{ Passed, Failed, Skipped int }
	FailedTests []string
}

// TestConformanceTableIsCurrent writes the table of results anew with -update. Lists of tests that
// failed stand below it.
func TestConformanceTableIsCurrent(t *testing.T) {
	const page, begin, end = "docs/reference/gateway-api.md", "<!-- results -->\n", "<!-- end of results -->"
	var r conformanceReport
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docs/reference/gateway-api-conformance.yaml")), &r))
	require.NotEmpty(t, r.Profiles)
	before, rest, found := strings.Cut(read(t, page), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	golden.File(t, filepath.Join(root, filepath.FromSlash(page)), before+begin+conformanceTable(&r)+end+after)
}

func conformanceTable(r *conformanceReport) string {
	var b strings.Builder
	b.WriteString("\n| profile | core: passed | failed | skipped | extended: passed | failed | skipped |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	failed := map[string]bool{}
	var names []string
	for _, p := range r.Profiles {
		fmt.Fprintf(&b, "| %s |", p.Name)
		for _, of := range []*conformanceResult{p.Core, p.Extended} {
			if of == nil {
				of = &conformanceResult{}
			}
			fmt.Fprintf(&b, " %d | %d | %d |", of.Statistics.Passed, of.Statistics.Failed, of.Statistics.Skipped)
			for _, name := range of.FailedTests {
				if !failed[name] {
					failed[name] = true
					names = append(names, name)
				}
			}
		}
		b.WriteString("\n")
	}
	if len(names) > 0 {
		b.WriteString("\nFailed:\n\n")
		for _, name := range names {
			fmt.Fprintf(&b, "* %s\n", name)
		}
	}
	return b.String() + "\n"
}
