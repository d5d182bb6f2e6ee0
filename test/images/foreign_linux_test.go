package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// emulation is how programs of another architecture run on this machine: by an emulator of QEMU for
// single processes, which Debian has in the package qemu-user-static.
type emulation struct{ arch, emulator string }

// emulationHere returns that of the architecture that this machine has not, of the two that images
// are made for. It skips the test where the emulator is not installed.
func emulationHere(t *testing.T) emulation {
	t.Helper()
	e, names := emulation{arch: "arm64"}, []string{"qemu-aarch64-static", "qemu-aarch64"}
	if runtime.GOARCH == "arm64" {
		e.arch, names = "amd64", []string{"qemu-x86_64-static", "qemu-x86_64"}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			e.emulator = path
			return e
		}
	}
	t.Skipf("programs for %s do not run on this machine; want one of %v in $PATH", e.arch, names)
	return e
}

// wrap makes a program that runs a program of an unpacked image, with the libraries of the image.
func (e emulation) wrap(t *testing.T, r root, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	require.NoError(t, os.WriteFile(path, //nolint:gosec // a program
		fmt.Appendf(nil, "#!/bin/sh\nexec %q -L %q %q \"$@\"\n", e.emulator, r.dir, r.dir+program), 0o755))
	return path
}

// foreign makes the images for the architecture that this machine has not, and runs their programs.
// Its control plane drives an Envoy of this machine's.
func foreign(t *testing.T, source, tools, native string) {
	e, out := emulationHere(t), t.TempDir()
	hasEnvoy := e.takeEnvoy(t, source, tools)
	makeImages(t, source, tools, out, e.arch)
	for _, c := range []struct {
		image, program, want string
		args                 []string
	}{
		{"lateen", "lateen-discovery", version, []string{"--version"}},
		{"lateen-cli", "lateen", version, []string{"--version"}},
		{"lateen-cli", "lateen-installer", "kind: Deployment", []string{"manifest", "--image", "lateen:test"}},
		{"lateen-proxy", "lateen-agent", version, []string{"version"}},
		{"lateen-proxy", "lateen-agent", "redirect to :15001", []string{"istio-iptables", "--dry-run", "-i", "*"}},
		{"lateen-proxy", "envoy", "version: ", []string{"--version"}},
	} {
		_, config := layout(filepath.Join(out, c.image)).image(t, e.arch)
		require.Equal(t, e.arch, config.Architecture)
		if c.program == "envoy" && !hasEnvoy {
			t.Logf("Envoy for %s is not run: it is not in .tools; make images fetches it", e.arch)
			continue
		}
		r := unpackedFor(t, out, c.image, e.arch)
		text, err := exec.Command(e.wrap(t, r, bin+c.program), c.args...).CombinedOutput()
		require.NoError(t, err, string(text))
		require.Contains(t, string(text), c.want)
	}
	plane := unpackedFor(t, out, "lateen", e.arch)
	lateen := lateenserve.Start(t, lateenserve.Options{Binary: e.wrap(t, plane, bin+"lateen-discovery"), Args: []string{
		"--config-dir", manifests(t), "--state-dir", filepath.Join(t.TempDir(), "state"),
	}})
	gateway(t, unpacked(t, native, "lateen-proxy"), lateen.XDS)
}

// takeEnvoy adds Envoy and its C library to the inputs of images, as make images has fetched them.
// Without them there are empty files in their place, and it reports false.
func (e emulation) takeEnvoy(t *testing.T, source, tools string) bool {
	t.Helper()
	fetched := filepath.Join(source, ".tools")
	library, envoy := "libc-"+e.arch, "envoy-"+e.arch
	_, noEnvoy := os.Stat(filepath.Join(fetched, envoy))
	_, noLibrary := os.Stat(filepath.Join(fetched, library))
	if noEnvoy == nil && noLibrary == nil {
		require.NoError(t, os.Symlink(filepath.Join(fetched, envoy), filepath.Join(tools, envoy)))
		require.NoError(t, os.CopyFS(filepath.Join(tools, library), os.DirFS(filepath.Join(fetched, library))))
		return true
	}
	emptyEnvoy(t, tools, e.arch)
	return false
}
