package translatetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden outputs, and remove those without an input")

const (
	inputs  = ".in.yaml"
	outputs = ".out.yaml"
)

// Golden translates each testdata/<case>.in.yaml and compares the message with testdata/<case>.out.yaml. A case is added
// by adding its input and running the tests with -update, which writes the output.
func Golden(t *testing.T, translate func(t *testing.T, in []byte) proto.Message) {
	t.Helper()
	cases := casesOf(t, inputs)
	require.NotEmpty(t, cases)
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile(path(name, inputs))
			require.NoError(t, err)
			got := Text(t, translate(t, in))
			if *update {
				require.NoError(t, os.WriteFile(path(name, outputs), []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(path(name, outputs))
			require.NoError(t, err, "run the test with -update to write it")
			require.Equal(t, string(want), got)
		})
	}
	orphans(t, cases)
}

func orphans(t *testing.T, cases []string) {
	t.Helper()
	known := map[string]bool{}
	for _, name := range cases {
		known[name] = true
	}
	for _, name := range casesOf(t, outputs) {
		switch {
		case known[name]:
		case *update:
			require.NoError(t, os.Remove(path(name, outputs)))
		default:
			t.Errorf("%s has no input; -update removes it", path(name, outputs))
		}
	}
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
