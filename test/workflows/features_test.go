package workflows

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLiveTestsOfFeaturesExist: each live test that hack/test.sh names is there, and none stands
// twice.
func TestLiveTestsOfFeaturesExist(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "test/live/features/*_test.go"))
	require.NoError(t, err)
	there := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		there += string(text)
	}
	seen := map[string]bool{}
	lists := regexp.MustCompile(`(?m)^features\+?='\|?([^']+)'$`)
	for _, list := range lists.FindAllStringSubmatch(read(t, "hack/test.sh"), -1) {
		for name := range strings.SplitSeq(list[1], "|") {
			require.Contains(t, there, "\nfunc Test"+name+"(", "hack/test.sh names it")
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	require.Greater(t, len(seen), 15)
}
