package dir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

const twoObjects = `# Who calls whom.
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: reviews
  namespace: shop
spec:
  hosts: [reviews.shop.svc.cluster.local]
  http:
  - match:
    - uri: {prefix: /v1}
    route:
    - destination: {host: reviews, port: {number: 9080}}
      weight: 100
---
# And who may.
apiVersion: v1
kind: Service
metadata:
  name: ratings
  namespace: shop
  labels:
    app: ratings
spec:
  selector:
    app: ratings
  ports:
  - name: http
    port: 9080
    targetPort: 8080
  - name: metrics
    port: 15020
`

// Wherever a file is cut, no object is lost and an error says so, unless the rest is a complete
// set of documents.
func TestNoPrefixOfAFileLosesAnObject(t *testing.T) {
	first := strings.Index(twoObjects, "---") // what ends here is complete
	before, _ := keepLastValid(manifest.ReadFile("a.yaml", []byte(twoObjects)), "a.yaml", nil)
	require.Len(t, before, 2)
	for size := range len(twoObjects) {
		r := manifest.ReadFile("a.yaml", []byte(twoObjects[:size]))
		documents, notes := keepLastValid(r, "a.yaml", before)
		lost := missing(manifest.Reading{Documents: documents}, before)
		if size == first || size == first-1 { // with and without the last line break
			require.Len(t, lost, 1)
			require.Empty(t, notes)
			continue
		}
		require.Empty(t, lost, "cut at %d: %q", size, twoObjects[:size])
		if len(r.Documents) < 2 {
			require.True(t, hasError(append(r.Problems, notes...)), "cut at %d: no error", size)
		}
		again, _ := keepLastValid(r, "a.yaml", documents)
		require.Equal(t, documents, again, "a restart changes something")
	}
}

// Objects whose last line is their name, or a text, are told from their beginnings by the last line
// break.
func TestNoPrefixOfALineIsTakenForARemoval(t *testing.T) {
	const content = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: istio\n" +
		"data:\n  mesh: |\n    a: 1\n    b: 2\n" +
		"---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: reviews\n"
	first := strings.Index(content, "---")
	before, _ := keepLastValid(manifest.ReadFile("a.yaml", []byte(content)), "a.yaml", nil)
	for size := range len(content) {
		r := manifest.ReadFile("a.yaml", []byte(content[:size]))
		documents, _ := keepLastValid(r, "a.yaml", before)
		if size == first || size == first-1 {
			continue
		}
		require.Empty(t, missing(manifest.Reading{Documents: documents}, before), "cut at %d: %q", size, content[:size])
	}
	renamed := strings.Replace(content, "reviews", "review", 1)
	documents, notes := keepLastValid(manifest.ReadFile("a.yaml", []byte(renamed)), "a.yaml", before)
	require.Len(t, missing(manifest.Reading{Documents: documents}, before), 1)
	require.Empty(t, notes)
}

func hasError(problems []source.Problem) bool {
	for _, p := range problems {
		if p.Severity == source.Error {
			return true
		}
	}
	return false
}

func TestRemovalsAreBelieved(t *testing.T) {
	a, b, c := service("a", "1"), service("b", "1"), service("c", "1")
	before, _ := keepLastValid(manifest.ReadFile("a.yaml", []byte(a+b+c)), "a.yaml", nil)
	for name, content := range map[string]string{
		"the last":                        a + b,
		"the first":                       b + c,
		"without a line break at the end": strings.TrimSpace(a),
		"all but one that is new":         service("d", "1"),
		"and an edit of another":          service("a", "2"),
		"and an edit that shortens":       service("a", ""),
	} {
		r := manifest.ReadFile("a.yaml", []byte(content))
		documents, notes := keepLastValid(r, "a.yaml", before)
		require.Equal(t, r.Documents, documents, name)
		require.Empty(t, notes, name)
	}
}

func TestCutOffFilesKeepWhatIsMissing(t *testing.T) {
	a, b := service("a", "1"), service("b", "1")
	before, _ := keepLastValid(manifest.ReadFile("a.yaml", []byte(a+b)), "a.yaml", nil)
	for content, why := range map[string]string{
		"":                                     "it is empty",
		" \n\n":                                "it is empty",
		"# nothing\n":                          "it is empty",
		service("a", "2") + "---\n":            `nothing follows its last "---"`,
		"apiVersion: v1\nkind: List\nitems:\n": "its last document has no name",
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n": "its last document is the beginning of " +
			"Service default/a",
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: a, x: 1}": "its last document cannot be read",
	} {
		documents, notes := keepLastValid(manifest.ReadFile("a.yaml", []byte(content)), "a.yaml", before)
		require.Empty(t, missing(manifest.Reading{Documents: documents}, before), content)
		require.NotEmpty(t, notes, content)
		require.Contains(t, notes[len(notes)-1].Message, "cut off or half-written: "+why, content)
		require.Equal(t, source.Error, notes[len(notes)-1].Severity)
	}
}
