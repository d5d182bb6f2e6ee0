package spec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestGolden reads the files of each archive, and the flags in its lines before the first file that
// begin with two dashes. What is to be installed and what becomes of other fields stands in "want".
func TestGolden(t *testing.T) {
	golden.Archives(t, "testdata", func(t *testing.T, archive *txtar.Archive) string {
		in := Input{Image: "lateen:test"}
		for line := range strings.Lines(string(archive.Comment)) {
			flag, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch flag {
			case "--set":
				in.Sets = append(in.Sets, value)
			case "--revision":
				in.Revision = value
			case "--namespace":
				in.Namespace = value
			}
		}
		for _, f := range archive.Files {
			in.Documents = append(in.Documents, Document{Name: f.Name, Text: string(f.Data)})
		}
		s, notes, err := Read(in)
		if err != nil {
			return "error:\n" + err.Error() + "\n"
		}
		var out strings.Builder
		text, err := yaml.Marshal(s)
		require.NoError(t, err)
		out.Write(text)
		for _, n := range notes {
			fmt.Fprintf(&out, "# %s = %s: %s\n", n.Field, n.Value, n.Outcome)
		}
		if _, err := s.Objects(nil); err != nil {
			fmt.Fprintf(&out, "# refused: %s\n", err)
		}
		return out.String()
	})
}
