package settings

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/code"
)

// ofKubernetes are variables that each container has, so that nothing is asked for by them.
var ofKubernetes = []string{"KUBERNETES_SERVICE_HOST"}

// TestEveryVariableOfPilotAgentIsReadRefusedOrNoted compares the names that pilot-agent registers
// (testdata/pilot-agent-variables.txt) with what this package knows of.
func TestEveryVariableOfPilotAgentIsReadRefusedOrNoted(t *testing.T) {
	read := code.Of(t, "*.go")
	text, err := os.ReadFile("testdata/pilot-agent-variables.txt")
	require.NoError(t, err)
	names := strings.Fields(string(text))
	require.Greater(t, len(names), 60)
	for _, name := range names {
		isMetadata := strings.HasPrefix(name, "ISTIO_META_")
		known := strings.Contains(read, `"`+name+`"`) || isMetadata || slices.Contains(ofKubernetes, name)
		require.True(t, known, "%s: read it, or put it into refused or ignored", name)
	}
}
