package observe

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestPicturesAreOfTheDashboards: each dashboard has a picture in the docs, which a page shows, and
// none has changed since its picture was drawn.
func TestPicturesAreOfTheDashboards(t *testing.T) {
	page, err := os.ReadFile("../../docs/guides/observe.md")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dashboardDir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	shown := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json") + ".png"
		shown[name] = true
		dashboard, err := os.ReadFile(file)
		require.NoError(t, err)
		picture, err := os.ReadFile(filepath.Join("../../docs/pictures", name))
		require.NoError(t, err, "make dashboard-pictures draws it")
		sum := sha256.Sum256(dashboard)
		require.Equal(t, hex.EncodeToString(sum[:]), textOf(picture, "Dashboard"),
			"%s is not of %s as it is now: make dashboard-pictures", name, file)
		require.Contains(t, string(page), "(../pictures/"+name+")")
	}
	drawn, err := filepath.Glob("../../docs/pictures/*.png")
	require.NoError(t, err)
	for _, picture := range drawn {
		require.True(t, shown[filepath.Base(picture)], "%s is of no dashboard", picture)
	}
}

// textOf returns a text that a PNG says of itself; "" if it does not.
func textOf(png []byte, keyword string) string {
	const signature, header, checksum = 8, 8, 4
	for at := signature; at+header <= len(png); {
		length := int(binary.BigEndian.Uint32(png[at:]))
		kind, data := string(png[at+4:at+header]), png[at+header:]
		if length > len(data) {
			return ""
		}
		name, text, _ := bytes.Cut(data[:length], []byte{0})
		if kind == "tEXt" && string(name) == keyword {
			return string(text)
		}
		at += header + length + checksum
	}
	return ""
}
