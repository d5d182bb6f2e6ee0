package inject

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// shortTemplate adds what tells workloads apart.
const shortTemplate = `
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
        image: proxy
        env: [{name: OWNER, value: {{ .Proxy.Owner }}}]
`

// TestDocuments injects files. What was injected is injected again, which must change nothing.
func TestDocuments(t *testing.T) {
	injector, err := New(Options{Namespace: "istio-system"}, Texts{Config: shortTemplate})
	require.NoError(t, err)
	for _, name := range []string{"all", "mistakes"} {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", "documents", name+".yaml"))
			require.NoError(t, err)
			out, notes, err := injector.Documents(in, "")
			var said strings.Builder
			for _, n := range notes {
				fmt.Fprintf(&said, "%s: %v, %s\n", n.Workload, n.Inject, n.Reason)
			}
			if err != nil {
				require.Nil(t, out)
				fmt.Fprintf(&said, "error: %v\n", err)
			} else {
				again, _, err := injector.Documents(out, "")
				require.NoError(t, err)
				require.Equal(t, string(out), string(again))
			}
			golden.File(t, filepath.Join("testdata", "documents", name+".golden"), said.String()+string(out))
		})
	}
}

func TestDocumentsWithoutWorkloadsStayToTheLetter(t *testing.T) {
	injector, err := New(Options{Namespace: "istio-system"}, Texts{})
	require.NoError(t, err)
	for _, text := range []string{
		"", "\n", "---\n", "# only a comment\n", "---\n---\n\n---", "kind: ConfigMap\r\n---\r\nkind: Secret # x\r\n",
		"kind: ConfigMap\ndata:\n  a: |\n    ---\n    b\n",
	} {
		out, _, err := injector.Documents([]byte(text), "")
		require.NoError(t, err, "%q", text)
		require.Equal(t, text, string(out))
	}
}

// FuzzDocuments: whatever a file says, it is injected or refused.
func FuzzDocuments(f *testing.F) {
	for _, name := range []string{"all", "mistakes"} {
		text, err := os.ReadFile(filepath.Join("testdata", "documents", name+".yaml"))
		require.NoError(f, err)
		f.Add(text)
	}
	injector, err := New(Options{Namespace: "istio-system"}, Texts{Config: shortTemplate})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		out, _, err := injector.Documents(text, "")
		require.True(t, err == nil || out == nil)
	})
}
