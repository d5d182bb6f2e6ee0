package translatetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

const (
	inputs  = ".in.yaml"
	outputs = ".out.yaml"
)

// Golden translates each testdata/<case>.in.yaml and compares the message with
// testdata/<case>.out.yaml. A case is added by adding its input and running the tests with -update,
// which writes the output.
func Golden(t *testing.T, translate func(t *testing.T, in []byte) proto.Message) {
	t.Helper()
	golden.Cases(t, inputs, outputs, func(t *testing.T, path string) string {
		in, err := os.ReadFile(path)
		require.NoError(t, err)
		return Text(t, translate(t, in))
	})
}

// Outputs are the names of the golden outputs of the package under test.
func Outputs(t *testing.T) []string { return casesOf(t, outputs) }

// Output reads one golden output into the message, after its text was edited.
func Output(t *testing.T, name string, edit func(string) string, into proto.Message) {
	t.Helper()
	text, err := os.ReadFile(path(name, outputs))
	require.NoError(t, err)
	j, err := yaml.YAMLToJSON([]byte(edit(string(text))))
	require.NoError(t, err)
	require.NoError(t, protojson.Unmarshal(j, into), name)
}

// casesOf are the names of the files in testdata with the suffix, without it.
func casesOf(t *testing.T, suffix string) []string {
	t.Helper()
	files, err := filepath.Glob(path("*", suffix))
	require.NoError(t, err)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), suffix)
	}
	return files
}

func path(name, suffix string) string { return filepath.Join("testdata", name+suffix) }

// Text is a message as people read it: YAML with sorted keys, packed messages unpacked.
func Text(t *testing.T, m proto.Message) string {
	t.Helper()
	j, err := protojson.Marshal(m)
	require.NoError(t, err)
	y, err := yaml.JSONToYAML(j)
	require.NoError(t, err)
	return string(y)
}
