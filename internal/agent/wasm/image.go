package wasm

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	registryv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Formats of images, as https://github.com/solo-io/wasm/tree/master/spec has them.
const (
	moduleLayer = "application/vnd.module.wasm.content.layer.v1+wasm"
	moduleFile  = "plugin.wasm"
)

// image is an image of a registry whose module is not fetched yet.
type image struct {
	// digests are those of its manifest and, of an image for several platforms, of its index.
	digests []string
	of      registryv1.Image
}

// find asks the registry for an image.
func (o *Options) find(ctx context.Context, reference string, secret []byte) (*image, error) {
	var keys authn.Keychain = authn.DefaultKeychain // of the proxy, for all plugins
	if secret != nil {
		own, err := keychainOf(secret)
		if err != nil {
			return nil, err
		}
		keys = own
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, err
	}
	host := ref.Context().RegistryStr()
	if !o.isAllowed(host) {
		return nil, fmt.Errorf("%s is a registry that modules may not be fetched from", host)
	}
	if o.isInsecure(host) {
		if ref, err = name.ParseReference(reference, name.Insecure); err != nil {
			return nil, err
		}
	}
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(keys),
		remote.WithTransport(&secured{o.transport(), func(of string) bool {
			return of == host && ref.Context().Scheme() == "http" || o.isInsecure(of)
		}}))
	if err != nil {
		return nil, err
	}
	of, err := found.Image()
	if err != nil {
		return nil, err
	}
	digest, err := of.Digest()
	if err != nil {
		return nil, err
	}
	return &image{digests: []string{digest.Hex, found.Digest.Hex}, of: of}, nil
}

// secured makes no request without TLS but to hosts that are asked so.
type secured struct {
	http.RoundTripper
	plain func(host string) bool
}

// RoundTrip implements http.RoundTripper.
func (s *secured) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !s.plain(r.URL.Host) {
		return nil, errors.New("the registry has another server asked without TLS")
	}
	return s.RoundTripper.RoundTrip(r)
}

// module fetches the module of an image: the layer that is one, or the file plugin.wasm in the last
// layer.
func (o *Options) module(i *image) ([]byte, error) {
	layers, err := i.of.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, errors.New("the image has no layer")
	}
	if err := o.checkLayers(i); err != nil {
		return nil, err
	}
	for _, l := range layers {
		if t, err := l.MediaType(); err == nil && t == moduleLayer {
			return o.content(l, func(r io.Reader) ([]byte, error) { return o.read(r) })
		}
	}
	last := layers[len(layers)-1]
	t, err := last.MediaType()
	if err != nil {
		return nil, err
	}
	if t != types.DockerLayer && t != types.OCILayer {
		return nil, fmt.Errorf("the last layer is of type %s; want %s, %s, or %s", t, moduleLayer, types.OCILayer,
			types.DockerLayer)
	}
	return o.content(last, o.plugin)
}

// checkLayers returns an error if a layer may be at a host that modules may not be fetched from.
func (o *Options) checkLayers(i *image) error {
	m, err := i.of.Manifest()
	if err != nil {
		return err
	}
	for _, l := range m.Layers {
		for _, at := range l.URLs {
			if u, err := url.Parse(at); err != nil || !o.isAllowed(u.Host) {
				return errors.New("a layer is at a host that modules may not be fetched from")
			}
		}
	}
	return nil
}

// content reads a layer. It reads all of it, because its digest is verified at its end.
func (o *Options) content(l registryv1.Layer, read func(io.Reader) ([]byte, error)) ([]byte, error) {
	r, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	body, err := read(r)
	if err != nil {
		return nil, err
	}
	switch _, err := io.CopyN(io.Discard, r, 2*o.MaxBytes); {
	case err == nil:
		return nil, errTooLarge
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return body, nil
}

// plugin reads the module in an archive.
func (o *Options) plugin(r io.Reader) ([]byte, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	// Beside the module a layer has next to nothing: an archive that does not end is refused.
	files := tar.NewReader(io.LimitReader(unzipped, 2*o.MaxBytes))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the last layer has no file " + moduleFile)
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg && path.Base(h.Name) == moduleFile {
			return o.read(files)
		}
	}
}

// keychain are credentials by registry.
type keychain map[string]authn.AuthConfig

// keychainOf reads a pull secret of Kubernetes: a Docker configuration, of which the credentials
// count alone. It names programs that are asked for credentials too, which the agent does not run.
func keychainOf(secret []byte) (authn.Keychain, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if len(secret) == 0 || json.Unmarshal(secret, &config) != nil {
		return nil, errors.New("the pull secret is missing or no Docker configuration")
	}
	return keychain(config.Auths), nil
}

// Resolve implements authn.Keychain.
func (k keychain) Resolve(of authn.Resource) (authn.Authenticator, error) {
	host := of.RegistryStr()
	names := []string{host, "https://" + host, "http://" + host}
	if host == name.DefaultRegistry {
		names = append(names, authn.DefaultAuthKey, "docker.io")
	}
	for _, n := range names {
		if c, has := k[n]; has {
			return authn.FromConfig(c), nil
		}
	}
	return authn.Anonymous, nil
}
