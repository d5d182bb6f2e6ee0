package convert

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// leastInvalidPolicies is how many invalid policies the golden cases have, at least.
const leastInvalidPolicies = 60

// TestInvalidPoliciesAreToldWithTheirFields counts the invalid policies of the golden cases. What
// is wrong with each names the field and says what would be right.
func TestInvalidPoliciesAreToldWithTheirFields(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	require.NoError(t, err)
	policy := regexp.MustCompile(`^(# )?(Authorization|RequestAuthentication|PeerAuthentication)`)
	told := regexp.MustCompile(`(?m)^error: (spec|metadata)[.[].*; want .+$`)
	invalid := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for one := range strings.SplitSeq(string(text), "\n# ") {
			if policy.MatchString(one) && strings.Contains(one, "\nerror: ") {
				require.Regexp(t, told, one, file)
				invalid++
			}
		}
	}
	require.GreaterOrEqual(t, invalid, leastInvalidPolicies)
}
