package authz_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
)

// policyCase is policies of the namespace shop, and calls that they allow and refuse.
type policyCase struct {
	// Why says what the documentation of AuthorizationPolicy says. A failure shows it.
	Why string `json:"why"`
	// Policies are specs as users write them.
	Policies []json.RawMessage `json:"policies"`
	// DryRun has the last of the policies decide nothing.
	DryRun bool `json:"dryRun"`
	// Aliases are trust domains that stand for that of the mesh.
	Aliases []string     `json:"aliases"`
	Allowed []policyCall `json:"allowed"`
	Refused []policyCall `json:"refused"`
}

// policyCall describes a call. What it leaves out is a GET of / by shop/web from 10.0.0.1.
type policyCall struct {
	// From is "namespace/account", a whole identity, or "plaintext".
	From    string            `json:"from"`
	IP      string            `json:"ip"`
	Remote  string            `json:"remote"` // the same as IP
	Port    string            `json:"port"`
	SNI     string            `json:"sni"`
	TCP     bool              `json:"tcp"` // a connection that is not HTTP
	Host    string            `json:"host"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
}

// TestPolicyCases runs the table of testdata/cases.yaml through the translated filters, and through
// the interpreter of the documentation.
func TestPolicyCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.yaml")
	require.NoError(t, err)
	var cases []policyCase
	require.NoError(t, yaml.UnmarshalStrict(text, &cases))
	count := 0
	for i, c := range cases {
		in := inputOf(t, c.manifests(t))
		if len(c.Aliases) > 0 {
			domains := append([]string{model.DefaultMesh().TrustDomain}, c.Aliases...)
			in.TrustDomains = model.NewInterner[string]().List(domains)
		}
		for _, outcome := range []struct {
			calls []policyCall
			want  bool
		}{{c.Allowed, true}, {c.Refused, false}} {
			for _, described := range outcome.calls {
				count++
				t.Run(fmt.Sprint(i, "/", count), func(t *testing.T) {
					c.require(t, in, described, outcome.want)
				})
			}
		}
	}
	require.GreaterOrEqual(t, count, 150)
}

func (c policyCase) require(t *testing.T, in authz.Input, described policyCall, want bool) {
	t.Helper()
	made := described.call()
	got := evaluated(t, in, made)
	require.Equal(t, want, got.Outcome == policy.Allowed, "the filters: %s\n%+v\n%s", c.Why, made, got)
	report := policy.Decide(policiesOf(in), slices.Collect(in.TrustDomains.All()), made)
	require.Equal(t, want, report.Outcome == policy.Allowed, "the interpreter: %s\n%+v\n%s", c.Why, made, report)
	for _, p := range report.Policies {
		for _, r := range p.Rules {
			require.Equal(t, r.Matches, len(r.Failed) == 0, "a rule matches, or says why not: %+v", r)
		}
	}
}

// policiesOf are the policies of an input as objects.
func policiesOf(in authz.Input) (all []*model.AuthorizationPolicy) {
	for p := range in.Policies.All() {
		all = append(all, &model.AuthorizationPolicy{
			Meta:   model.Meta{Namespace: p.Namespace, Name: p.Name},
			Action: p.Action, DryRun: p.DryRun, Provider: p.Provider, Rules: p.Rules,
		})
	}
	return all
}

// manifests are the policies as documents. JSON is YAML too.
func (c policyCase) manifests(t *testing.T) []byte {
	t.Helper()
	var documents []string
	for i, spec := range c.Policies {
		meta := map[string]any{"name": fmt.Sprint("p", i), "namespace": "shop"}
		if c.DryRun && i == len(c.Policies)-1 {
			meta["annotations"] = map[string]string{"istio.io/dry-run": "true"}
		}
		document, err := json.Marshal(map[string]any{
			"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": meta, "spec": spec,
		})
		require.NoError(t, err)
		documents = append(documents, string(document))
	}
	return []byte(strings.Join(documents, "\n---\n"))
}

func (d policyCall) call() policy.Call {
	ip := cmp.Or(d.IP, "10.0.0.1")
	port, _ := strconv.ParseUint(cmp.Or(d.Port, "80"), 10, 16)
	c := policy.Call{
		TCP:         d.TCP,
		Source:      netip.MustParseAddr(ip),
		Remote:      netip.MustParseAddr(cmp.Or(d.Remote, ip)),
		Destination: netip.MustParseAddr("10.0.0.9"),
		Port:        uint16(port),
		SNI:         d.SNI,
		Headers:     d.Headers,
	}
	if !d.TCP {
		c.Host, c.Method, c.Path = cmp.Or(d.Host, "a.test"), cmp.Or(d.Method, "GET"), cmp.Or(d.Path, "/")
	}
	switch from := cmp.Or(d.From, "shop/web"); {
	case from == "plaintext":
	case strings.HasPrefix(from, model.IdentityScheme):
		c.Identity = from
	default:
		namespace, account, _ := strings.Cut(from, "/")
		c.Identity = model.IdentityOf("cluster.local", namespace, account)
	}
	return c
}
