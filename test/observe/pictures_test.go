package observe

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pictures is where the dashboards are drawn to (make dashboard-pictures); by python, which has
// hack/dashboards/requirements-pictures.txt.
var (
	pictures = flag.String("pictures", "", "draw the dashboards into this directory")
	python   = flag.String("python", "python3", "the Python that draws them")
)

// pictured is how much time the pictures show.
const pictured = 4 * time.Minute

// draw draws these files of dashboardDir from what a Prometheus has.
func draw(t *testing.T, p *prometheus, files ...string) {
	t.Helper()
	args := []string{
		"../../hack/dashboards/pictures.py", "http://" + p.Address, fmt.Sprint(int(pictured.Seconds())), *pictures,
	}
	for _, f := range files {
		args = append(args, filepath.Join(dashboardDir, f))
	}
	out, err := exec.CommandContext(t.Context(), *python, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
