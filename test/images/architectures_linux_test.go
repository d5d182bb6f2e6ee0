package images

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachArchitecture makes images for both architectures from programs that do nothing, since they
// compile in seconds. Each program has to be of the architecture that its image claims.
func eachArchitecture(t *testing.T, source string) {
	stub, tools, out := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(stub, "hack/images"), os.DirFS(filepath.Join(source, "hack/images"))))
	for name, text := range map[string]string{
		"go.mod":  "module github.com/lateen-mesh/lateen\n",
		"LICENSE": "none\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(stub, name), []byte(text), 0o600))
	}
	for _, program := range []string{"lateen", "lateen-discovery", "lateen-installer", "lateen-agent"} {
		dir := filepath.Join(stub, "cmd", program)
		require.NoError(t, os.MkdirAll(dir, 0o750))
		file := filepath.Join(dir, "main.go")
		require.NoError(t, os.WriteFile(file, []byte("package main\n\nfunc main() {}\n"), 0o600))
	}
	emptyEnvoy(t, tools, "amd64")
	emptyEnvoy(t, tools, "arm64")
	makeImages(t, stub, tools, out, "amd64,arm64")
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for image, programs := range map[string][]string{
			"lateen": {"lateen-discovery"}, "lateen-cli": {"lateen", "lateen-installer"},
			"lateen-proxy": {"pilot-agent"},
		} {
			_, config := layout(filepath.Join(out, image)).image(t, arch)
			require.Equal(t, arch, config.Architecture, image)
			r := unpackedFor(t, out, image, arch)
			for _, program := range programs {
				file, err := elf.Open(r.dir + bin + program)
				require.NoError(t, err)
				require.Equal(t, machine, file.Machine, "%s of %s for %s", program, image, arch)
				require.NoError(t, file.Close())
			}
		}
	}
}

// emptyEnvoy writes empty files in place of Envoy and the loader of its C library.
func emptyEnvoy(t *testing.T, tools, arch string) {
	t.Helper()
	loader := map[string]string{"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}[arch]
	for _, name := range []string{"envoy-" + arch, filepath.Join("libc-"+arch, loader)} {
		path := filepath.Join(tools, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o755)) //nolint:gosec // in place of a program
	}
}
