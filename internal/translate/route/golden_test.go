package route_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

const (
	caseSuffix   = ".in.yaml"
	goldenSuffix = ".out.yaml"
)

// TestGolden translates testdata/<case>.in.yaml and compares with testdata/<case>.out.yaml. A case
// is a header (the fields of caseHeader) and after it VirtualServices as a user writes them; a new
// case is a new file and a run with -update.
func TestGolden(t *testing.T) {
	golden.Cases(t, caseSuffix, goldenSuffix, func(t *testing.T, path string) string {
		return string(toYAML(t, translateCase(t, strings.TrimSuffix(filepath.Base(path), caseSuffix))))
	})
}

func goldenFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*" + goldenSuffix)
	require.NoError(t, err)
	return files
}

func toYAML(t testing.TB, vh *routev3.VirtualHost) []byte {
	json, err := protojson.Marshal(vh)
	require.NoError(t, err)
	out, err := yaml.JSONToYAML(json)
	require.NoError(t, err)
	return out
}

// caseHeader is the first document of a case: what the class of proxies decides, and what is known
// of destinations.
type caseHeader struct {
	Host       string   `yaml:"host"`
	Port       uint16   `yaml:"port"`
	Domains    []string `yaml:"domains"` // the host alone if left out
	Default    bool     `yaml:"default"` // other requests go to the host
	RequireTLS bool     `yaml:"requireTLS"`
	SecurePort uint16   `yaml:"securePort"`
	Strangers  bool     `yaml:"strangers"`
	// Misdirected is for hosts of other servers.
	Misdirected bool `yaml:"misdirected"`
	GRPCWeb     bool `yaml:"grpcWeb"`
	DynamicDNS  bool `yaml:"dynamicDNS"`
	NoAttempts  bool `yaml:"noAttempts"`    // requests do not say how often they were tried
	Forwarded   bool `yaml:"forwardedHost"` // requests say the host before a rewrite
	Facts       []struct {
		Host     string `yaml:"host"`
		Port     uint16 `yaml:"port"`
		Subset   string `yaml:"subset"`
		Resolved uint16 `yaml:"resolved"`
		Hash     *struct {
			Header     string         `yaml:"header"`
			Query      string         `yaml:"query"`
			SourceIP   bool           `yaml:"sourceIP"`
			Cookie     string         `yaml:"cookie"`
			CookiePath string         `yaml:"cookiePath"`
			CookieTTL  *time.Duration `yaml:"cookieTTL"`

			Attributes []model.CookieAttribute `yaml:"attributes"`
		} `yaml:"hash"`
		Session *struct {
			Cookie string        `yaml:"cookie"`
			Path   string        `yaml:"path"`
			TTL    time.Duration `yaml:"ttl"`
			Header string        `yaml:"header"`
		} `yaml:"session"`
	} `yaml:"facts"`
}

func translateCase(t testing.TB, name string) *routev3.VirtualHost {
	header, services := readCase(t, filepath.Join("testdata", name+caseSuffix))
	return route.VirtualHost(header.input(services))
}

// readCase reads a case's header and its VirtualServices, converted as in the product.
func readCase(t testing.TB, file string) (header caseHeader, services []*model.VirtualService) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	documents := yamlv3.NewDecoder(bytes.NewReader(text))
	documents.KnownFields(true)
	require.NoError(t, documents.Decode(&header), "%s: the first document is the header", file)
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return header, services
		}
		require.NoError(t, err, file)
		manifest, err := yaml.Marshal(document)
		require.NoError(t, err)
		services = append(services, converted(t, manifest))
	}
}

func converted(t testing.TB, manifest []byte) *model.VirtualService {
	object := &networkingv1.VirtualService{}
	require.NoError(t, yaml.UnmarshalStrict(manifest, object))
	result := convert.New(convert.Options{}).Convert(source.Change{
		Key:    source.Key{Kind: kinds.VirtualService, Namespace: object.Namespace, Name: object.Name},
		Object: object,
	}, model.DefaultMesh())
	require.Len(t, result.Objects, 1, "%v", result.Problems)
	service, ok := result.Objects[0].(*model.VirtualService)
	require.True(t, ok)
	return service
}

// input puts together what compile would: each match of each route, and the facts in order.
func (h caseHeader) input(services []*model.VirtualService) route.VirtualHostInput {
	in := route.VirtualHostInput{
		Port: h.Port, RequireTLS: h.RequireTLS, SecurePort: h.SecurePort, Retries: model.DefaultRetries(),
		NoAttemptCount: h.NoAttempts, ForwardedHost: h.Forwarded, Misdirected: h.Misdirected,
		Strangers: h.Strangers, GRPCWeb: h.GRPCWeb, DynamicDNS: h.DynamicDNS,
	}
	if len(h.Domains) == 0 {
		h.Domains = []string{h.Host}
	}
	in.Domains = model.NewInterner[string]().List(h.Domains)
	if h.Default {
		in.Default = route.Target{Host: model.Host(h.Host), Port: h.Port}
	}
	var refs []route.RouteRef
	for _, vs := range services {
		for _, r := range vs.HTTP {
			matches := r.Matches
			if len(matches) == 0 {
				matches = []*model.HTTPMatch{nil}
			}
			for _, m := range matches {
				refs = append(refs, route.RouteRef{Owner: vs.Key(), Route: r, Match: m})
			}
		}
	}
	in.Routes = routes(refs...)
	in.Facts = h.facts()
	return in
}

func (h caseHeader) facts() *model.List[route.DestinationFact] {
	var facts []route.DestinationFact
	for _, f := range h.Facts {
		fact := route.DestinationFact{Host: model.Host(f.Host), Port: f.Port, Subset: f.Subset, Resolved: f.Resolved}
		if f.Hash != nil {
			fact.Hash = &model.HashPolicy{
				Header: f.Hash.Header, Query: f.Hash.Query, SourceIP: f.Hash.SourceIP,
				Cookie: f.Hash.Cookie, CookiePath: f.Hash.CookiePath, Attributes: f.Hash.Attributes,
			}
			if f.Hash.CookieTTL != nil {
				fact.Hash.CookieTTL, fact.Hash.CookieTTLSet = *f.Hash.CookieTTL, true
			}
		}
		if s := f.Session; s != nil {
			fact.Session = &model.Session{Cookie: s.Cookie, Path: s.Path, TTL: s.TTL, Header: s.Header}
		}
		facts = append(facts, fact)
	}
	slices.SortFunc(facts, route.CompareFacts)
	return model.NewInterner[route.DestinationFact]().List(facts)
}
