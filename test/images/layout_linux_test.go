package images

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// descriptor, manifest and config are what the OCI image specification calls so, as far as it is
// looked at.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

type manifest struct {
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
	Manifests []descriptor `json:"manifests"` // of an index
}

type config struct {
	Architecture string `json:"architecture"`
	Config       struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		WorkingDir string            `json:"WorkingDir"`
		Env        []string          `json:"Env"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
}

// layout is the directory of an OCI layout.
type layout string

func (l layout) read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(l), name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func (l layout) blob(t *testing.T, d descriptor, into any) {
	t.Helper()
	l.read(t, blobOf(d), into)
}

func blobOf(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

// index returns the one entry of the layout.
func (l layout) index(t *testing.T) descriptor {
	t.Helper()
	var top manifest
	l.read(t, "index.json", &top)
	require.Len(t, top.Manifests, 1)
	return top.Manifests[0]
}

// image returns the manifest and the configuration for an architecture.
func (l layout) image(t *testing.T, arch string) (m manifest, c config) {
	t.Helper()
	var index manifest
	l.blob(t, l.index(t), &index)
	for _, d := range index.Manifests {
		if d.Platform.Architecture == arch && d.Platform.OS == "linux" {
			l.blob(t, d, &m)
			l.blob(t, m.Config, &c)
			return m, c
		}
	}
	require.Fail(t, "no image for "+arch)
	return m, c
}

// unpack writes the layers below a directory, as a container runtime does.
func (l layout) unpack(t *testing.T, m manifest, dir string) {
	t.Helper()
	for _, layer := range m.Layers {
		blob, err := os.Open(filepath.Join(string(l), blobOf(layer)))
		require.NoError(t, err)
		unzipped, err := gzip.NewReader(blob)
		require.NoError(t, err)
		archive := tar.NewReader(unzipped)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			unpackOne(t, header, archive, filepath.Join(dir, filepath.Clean("/"+header.Name)))
		}
		require.NoError(t, blob.Close())
	}
}

func unpackOne(t *testing.T, header *tar.Header, content io.Reader, path string) {
	t.Helper()
	mode := header.FileInfo().Mode()
	switch header.Typeflag {
	case tar.TypeDir:
		require.NoError(t, os.MkdirAll(path, 0o755))
	case tar.TypeSymlink:
		require.NoError(t, os.Symlink(header.Linkname, path))
		return
	case tar.TypeReg:
		file, err := os.Create(path)
		require.NoError(t, err)
		_, err = io.Copy(file, content)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	default:
		require.Fail(t, "what is "+header.Name)
	}
	require.NoError(t, os.Chown(path, header.Uid, header.Gid))
	require.NoError(t, os.Chmod(path, mode))
}
