package convert

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// converted are the kinds that give something, in an order that does not change.
func converted() []*kinds.Descriptor {
	return slices.DeleteFunc(kinds.All(), func(d *kinds.Descriptor) bool { return d.LocalOnly })
}

// FuzzConvert converts whatever an API server or a directory may hand over.
func FuzzConvert(f *testing.F) {
	cases, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range cases {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		list, _ := manifest.Read(file, data)
		for _, d := range list {
			for i, known := range converted() {
				if known.Kind == d.Key.Kind {
					object, err := json.Marshal(d.Object)
					require.NoError(f, err)
					f.Add(uint8(i), object)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		kind := converted()[int(n)%len(converted())].Kind
		object := kind.NewObject()
		if json.Unmarshal(data, object) != nil {
			return
		}
		key := source.Key{Kind: kind, Namespace: "default", Name: "case"}
		if kind == kinds.ConfigMap && n < 128 { // others may hold authorities
			key.Namespace, key.Name = "istio-system", "istio"
		}
		c, converter := source.Change{Key: key, Object: object}, New(Options{})
		result := converter.Convert(c, model.DefaultMesh())
		requireSound(t, result)
		require.Equal(t, result, converter.Convert(c, model.DefaultMesh()))
	})
}

// FuzzConvertProto reaches values that JSON cannot spell: unknown enum numbers, NaN, durations out
// of range.
func FuzzConvertProto(f *testing.F) {
	cases, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range cases {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		list, _ := manifest.Read(file, data)
		for _, d := range list {
			for i, s := range specs() {
				if spec := specOf(d.Object); spec != nil &&
					spec.ProtoReflect().Descriptor() == s.ProtoReflect().Descriptor() {
					wire, err := proto.Marshal(spec)
					require.NoError(f, err)
					f.Add(uint8(i), wire)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		spec := specs()[int(n)%len(specs())]
		if proto.Unmarshal(data, spec) != nil {
			return
		}
		converter := New(Options{})
		result := readSpec(converter, spec)
		requireSound(t, result)
		require.Equal(t, result, readSpec(converter, spec))
	})
}

// requireSound checks what the rest of the pipeline takes for granted.
func requireSound(t *testing.T, result Result) {
	t.Helper()
	hosts := map[model.Host]bool{}
	for _, p := range result.Problems {
		require.NotEmpty(t, p.Path)
		require.NotEmpty(t, p.Message)
	}
	for _, o := range result.Objects {
		model.Fingerprint(o)
		switch o := o.(type) {
		case *model.Service:
			require.False(t, hosts[o.Host], "two services for %s", o.Host)
			hosts[o.Host] = true
			requireSoundService(t, o)
		case *model.VirtualService:
			requireSoundRoutes(t, o)
		case *model.EndpointSlice:
			for _, h := range o.Hosts {
				requireAddress(t, h.Address)
			}
		case *model.Workload:
			for _, a := range o.Addresses {
				requireAddress(t, a)
			}
		case *model.Sidecar:
			for _, l := range o.Egress {
				require.NotEmpty(t, l.Hosts)
			}
		case *model.Gateway:
			for _, s := range o.Servers {
				if s.Broken == "" {
					require.True(t, len(s.Hosts) > 0 && (s.Protocol != model.TLS || s.TLS != nil))
					require.Equal(t, strings.HasPrefix(s.Bind, "unix://"), s.Port == 0)
				}
			}
		case *model.MeshConfig:
			require.NotNil(t, o.Retries)
		}
	}
}

func requireSoundService(t *testing.T, s *model.Service) {
	requireHost(t, s.Host)
	require.NotEqual(t, model.Host("*"), s.Host)
	for _, p := range s.Ports {
		require.NotZero(t, p.Port)
		require.True(t, (p.Target != 0) != (p.TargetName != ""))
	}
	for _, e := range s.Endpoints {
		unix := strings.HasPrefix(e.Address, model.UnixPrefix)
		require.Equal(t, unix, e.Port == 0)
		switch {
		case unix:
			require.Equal(t, model.EDS, s.Resolution)
		case s.Resolution == model.EDS:
			requireAddress(t, e.Address)
		default:
			requireHost(t, model.Host(e.Address))
		}
	}
}

func requireSoundRoutes(t *testing.T, v *model.VirtualService) {
	require.NotEmpty(t, v.Hosts)
	require.NotEmpty(t, v.Gateways)
	for _, h := range v.Hosts {
		requireHost(t, h)
	}
	for _, r := range v.HTTP {
		actions := 0
		for _, set := range []bool{r.Broken != "", r.Redirect != nil, r.Direct != nil, len(r.Destinations) > 0} {
			if set {
				actions++
			}
		}
		require.Equal(t, 1, actions)
		requireSoundDestinations(t, r.Destinations)
	}
	for _, r := range v.TLS {
		require.NotEmpty(t, r.Matches)
		for _, m := range r.Matches {
			require.NotEmpty(t, m.SNIHosts)
		}
		require.True(t, (r.Broken != "") != (len(r.Destinations) > 0))
		requireSoundDestinations(t, r.Destinations)
	}
	for _, r := range v.TCP {
		require.True(t, (r.Broken != "") != (len(r.Destinations) > 0))
		requireSoundDestinations(t, r.Destinations)
	}
}

func requireSoundDestinations(t *testing.T, list []model.Destination) {
	sum := uint64(0)
	for _, d := range list {
		requireHost(t, d.Host)
		require.NotEqual(t, model.Host("*"), d.Host)
		require.NotContains(t, d.Subset, "|")
		sum += uint64(d.Weight)
	}
	require.True(t, len(list) < 2 || sum > 0)
	require.Less(t, sum, uint64(1)<<32)
}

func requireAddress(t *testing.T, text string) {
	a, err := netip.ParseAddr(text)
	require.NoError(t, err)
	require.Equal(t, a.Unmap().String(), text)
}

func requireHost(t *testing.T, h model.Host) {
	require.NotEmpty(t, h)
	require.Equal(t, strings.ToLower(string(h)), string(h))
	require.False(t, strings.ContainsAny(string(h), " |/\x00\n"), "%q", h)
}
