package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// bin is where an image has its programs.
const bin = "/usr/local/bin/"

// loaders are the dynamic loaders that Envoy names, by architecture.
var loaders = map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}

// image is one to be made. Layers that change seldom come first.
type image struct {
	name, title string
	licences    string // of all that it holds, as SPDX has it
	entrypoint  string
	layers      func(o options, arch, dir string) ([]files, error)
}

var images = []image{
	{"lateen", "the control plane of Lateen", "Apache-2.0", bin + "lateen", controlPlane},
	{"lateen-proxy", "Envoy with Lateen's agent", "Apache-2.0 AND LGPL-2.1-or-later", bin + "pilot-agent", proxy},
	{"lateen-cli", "Lateen's commands, with those that install it", "Apache-2.0", bin + "lateen", tools},
}

// controlPlane holds one program, also under the name by which istioctl runs it: no tools.
func controlPlane(o options, arch, dir string) ([]files, error) {
	path, err := discovery.build(o, arch, dir)
	return []files{{
		bin + "lateen-discovery": {from: path, mode: 0o755},
		bin + "pilot-discovery":  {link: "lateen-discovery"},
	}}, err
}

func tools(o options, arch, dir string) ([]files, error) {
	path, err := lateen.build(o, arch, dir)
	if err != nil {
		return nil, err
	}
	charts, err := installer.build(o, arch, dir)
	return []files{
		{bin + "lateen": {from: path, mode: 0o755}}, {bin + "lateen-installer": {from: charts, mode: 0o755}},
	}, err
}

// proxy holds the agent under the name that templates of Istio call it by, and Envoy with the C
// library that it is linked with. The agent sets nftables itself, so there is no other program.
func proxy(o options, arch, dir string) ([]files, error) {
	envoy := filepath.Join(o.tools, "envoy-"+arch)
	if _, err := os.Stat(envoy); err != nil {
		return nil, err
	}
	library, err := tree(filepath.Join(o.tools, "libc-"+arch))
	if err != nil {
		return nil, err
	}
	if _, ok := library[loaders[arch]]; !ok {
		return nil, fmt.Errorf("%s is not in the C library for %s", loaders[arch], arch)
	}
	path, err := agent.build(o, arch, dir)
	return []files{
		library, writable(), {bin + "envoy": {from: envoy, mode: 0o755}},
		{bin + "pilot-agent": {from: path, mode: 0o755}, bin + "lateen-agent": {link: "pilot-agent"}},
	}, err
}

// write makes all layouts. A layout that is there already is replaced.
func write(o options) error {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, i := range images {
		digest, err := i.write(o, dir)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		fmt.Printf("%s  %s  %s\n", filepath.Join(o.out, i.name), strings.Join(o.archs, ","), digest)
	}
	return nil
}

// write makes the layout of one image: an index with an image for each architecture.
func (i image) write(o options, dir string) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range o.archs {
		of, err := i.of(o, arch, dir)
		if err != nil {
			return v1.Hash{}, err
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: of, Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	annotated, ok := mutate.Annotations(index, i.labels(o)).(v1.ImageIndex)
	if !ok {
		return v1.Hash{}, fmt.Errorf("annotating an index gives %T", annotated)
	}
	digest, err := annotated.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	path := filepath.Join(o.out, i.name)
	if err := os.RemoveAll(path); err != nil {
		return v1.Hash{}, err
	}
	written, err := layout.Write(path, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	tag := map[string]string{"org.opencontainers.image.ref.name": o.version}
	return digest, written.AppendIndex(annotated, layout.WithAnnotations(tag))
}

// of makes the image of one architecture.
func (i image) of(o options, arch, dir string) (v1.Image, error) {
	contents, err := i.layers(o, arch, dir)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: o.created}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, content := range append([]files{base(o)}, contents...) {
		layer, err := content.layer()
		if err != nil {
			return nil, err
		}
		made, err = mutate.Append(made, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "hack/images"},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{
		User: fmt.Sprint(user, ":", user), Entrypoint: []string{i.entrypoint}, WorkingDir: "/",
		Env: []string{"PATH=/usr/local/bin"}, Labels: i.labels(o),
	}
	return mutate.ConfigFile(made, config)
}

func (all files) layer() (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(all.archive(writer)) }()
		return reader, nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// labels are those that OCI defines.
func (i image) labels(o options) map[string]string {
	const prefix = "org.opencontainers.image."
	all := map[string]string{
		prefix + "title": i.name, prefix + "description": i.title, prefix + "version": o.version,
		prefix + "created": o.created.Format("2006-01-02T15:04:05Z"), prefix + "licenses": i.licences,
		prefix + "source": "https://github.com/lateen-mesh/lateen",
	}
	if o.revision != "" {
		all[prefix+"revision"] = o.revision
	}
	return all
}
