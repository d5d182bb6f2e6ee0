package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

const version = "v1.2.3-test"

// makeImages makes all images of a source for an architecture into a directory.
func makeImages(t *testing.T, source, tools, out, arch string) {
	t.Helper()
	lateenserve.LookAtSources(t)
	cmd := exec.Command("go", "run", ".", "-source", source, "-tools", tools, "-out", out, "-version", version,
		"-revision", "0123abc", "-arch", arch)
	cmd.Dir = filepath.Join(source, "hack/images")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
}

// tools makes a directory with the Envoy that tests run and the C library of this machine: which
// one is pinned for the images that users get makes no difference here.
func tools(t *testing.T) string {
	t.Helper()
	envoy, err := filepath.Abs(realenvoy.Binary(t))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(envoy, filepath.Join(dir, "envoy-"+runtime.GOARCH)))
	out, err := exec.Command("ldd", envoy).Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				copyFile(t, word, filepath.Join(dir, "libc-"+runtime.GOARCH, word))
			}
		}
	}
	return dir
}

// elsewhere copies the files of the work tree, without its history.
func elsewhere(t *testing.T, source string) string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"cmd", "internal", "charts", "hack/images", "go.mod", "go.sum", "LICENSE")
	list.Dir = source
	out, err := list.Output()
	require.NoError(t, err)
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(source, name)); err == nil {
			copyFile(t, filepath.Join(source, name), filepath.Join(dir, name))
		}
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, content, 0o755)) //nolint:gosec // programs
}

// root is an unpacked image, in which programs run as in a Pod.
type root struct{ dir string }

func unpacked(t *testing.T, out, name string) root { return unpackedFor(t, out, name, runtime.GOARCH) }

func unpackedFor(t *testing.T, out, name, arch string) root {
	t.Helper()
	r := root{t.TempDir()}
	require.NoError(t, os.Chmod(r.dir, 0o755)) //nolint:gosec // another user runs in it
	l := layout(filepath.Join(out, name))
	m, _ := l.image(t, arch)
	l.unpack(t, m, r.dir)
	for _, dir := range []string{"proc", "dev"} { // where a runtime mounts
		require.NoError(t, os.MkdirAll(filepath.Join(r.dir, dir), 0o755))
	}
	return r
}

// enter makes a program that carries out its arguments in the root: read-only, but for volumes,
// and as a user. The volumes are directories of this machine by path in the root.
func (r root) enter(t *testing.T, user string, volumes map[string]string) string {
	t.Helper()
	var mounts strings.Builder
	for path, dir := range volumes {
		require.NoError(t, os.MkdirAll(filepath.Join(r.dir, path), 0o755))
		fmt.Fprintf(&mounts, "mount --bind %q \"$root%s\"\n", dir, path)
	}
	script := fmt.Sprintf(`#!/bin/sh
set -eu
root=%q
if [ -z "${INSIDE:-}" ]; then INSIDE=yes exec unshare --mount "$0" "$@"; fi
unset INSIDE
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
%s
exec env -u PWD PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot --userspec=%s --groups= "$root" "$@"
`, r.dir, mounts.String(), user)
	path := filepath.Join(t.TempDir(), "enter")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755)) //nolint:gosec // a program
	return path
}
