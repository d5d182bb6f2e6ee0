package envoyfilter_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestAllExtensionsAreHere compares the list of packages with those of the module that Envoy's
// types come from.
func TestAllExtensionsAreHere(t *testing.T) {
	const module = "github.com/envoyproxy/go-control-plane/envoy"
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	linked := regexp.MustCompile(`^extensions/|^config/.*/v3$|^watchdog/v3$`)
	var packages []string
	files := os.DirFS(strings.TrimSpace(string(dir)))
	require.NoError(t, fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if of := path.Dir(name); strings.HasSuffix(name, ".pb.go") && linked.MatchString(of) {
			packages = append(packages, fmt.Sprintf("\t_ %q\n", module+"/"+of))
		}
		return err
	}))
	text, err := os.ReadFile("extensions.go")
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(text), "import (\n")
	golden.File(t, "extensions.go", head+"import (\n"+strings.Join(model.SortedDistinct(packages), "")+")\n")
}
