package authz_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	withmatcherv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	skipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/matcher/action/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// BenchmarkRequest measures what a request costs a real Envoy in CPU that answers it itself, by
// policies of which no rule matches, by a token, and by an authorizer that is asked. It measures
// the filters in both forms in which they are delivered, as a resource of their own and as parts of
// the listener, and the least configuration for the same rule that a person would write. They take
// turns, so that whatever else the machine does meets all. Time per operation says nothing here.
func BenchmarkRequest(b *testing.B) {
	answers := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer answers.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(answers.URL, "http://"), ":")
	r := adscript.Start(b, adscript.Options{})
	r.AwaitOpen(adscript.Clusters)
	authorizer := "outbound|" + port + "||ext.test"
	r.AwaitAck(r.Send(adscript.Push("1", adscript.StaticCluster(authorizer, "127.0.0.1:"+port))))
	r.AwaitOpen(adscript.Listeners)
	var number uint16
	_, err := fmt.Sscan(port, &number)
	require.NoError(b, err)
	for _, c := range costCases(number, authorizer) {
		b.Run(c.name, func(b *testing.B) { c.measure(b, r) })
	}
}

// costCase is policies, and a configuration written by hand that does the same.
type costCase struct {
	name   string
	in     authz.Input
	byHand []*hcmv3.HttpFilter
	token  string
}

func costCases(port uint16, cluster string) []costCase {
	cases := []costCase{{name: "none"}}
	for _, n := range []int{1, 10, 100, 1000} {
		cases = append(cases, costCase{
			name: fmt.Sprint("rules=", n), in: inputWith(denying(n), nil), byHand: []*hcmv3.HttpFilter{handDenying(n)},
		})
	}
	key := []byte("a key that is long enough for HS256")
	keys := `{"keys":[{"kty":"oct","alg":"HS256","k":"` + base64.RawURLEncoding.EncodeToString(key) + `"}]}`
	rule := &model.TokenRule{Issuer: "https://a.test", Keys: keys, Forward: true}
	provider := &model.ExtAuthz{Name: "ext", Host: "ext.test", Port: port, Timeout: time.Second}
	asks := authz.Policy{
		Namespace: "n", Name: "ask", Action: model.AuthorizationCustom, Provider: provider,
		Rules: &model.AuthorizationRules{List: []model.AuthorizationRule{{}}},
	}
	asksForPaths := asks
	asksForPaths.Rules = &model.AuthorizationRules{List: []model.AuthorizationRule{{
		To: []model.AuthorizationConditions{{{Attribute: model.RequestPath, Values: []string{"/some/*"}}}},
	}}}
	return append(cases,
		costCase{
			name: "token", in: inputWith(nil, []authz.Token{{Rule: rule, Keys: keys}}),
			byHand: []*hcmv3.HttpFilter{handVerifying(keys)}, token: signed(key),
		},
		costCase{
			name: "authorizer", in: inputWith([]authz.Policy{asks}, nil),
			byHand: []*hcmv3.HttpFilter{handAsking(cluster)},
		},
		costCase{
			name: "authorizer-for-paths", in: inputWith([]authz.Policy{asksForPaths}, nil),
			byHand: []*hcmv3.HttpFilter{handAskingForPaths(cluster)},
		})
}

func inputWith(policies []authz.Policy, tokens []authz.Token) authz.Input {
	return authz.Input{
		Policies:     model.NewInterner[authz.Policy]().List(policies),
		TrustDomains: model.NewInterner[string]().List([]string{"cluster.local"}),
		Tokens:       model.NewInterner[authz.Token]().List(tokens),
	}
}

// neverPath is one that no request has.
func neverPath(i int) string { return fmt.Sprint("/never/", i) }

// denying is a policy with rules that refuse GETs of paths.
func denying(n int) []authz.Policy {
	p := authz.Policy{Namespace: "n", Name: "p", Action: model.AuthorizationDeny, Rules: &model.AuthorizationRules{}}
	for i := range n {
		p.Rules.List = append(p.Rules.List, model.AuthorizationRule{
			Index: i, To: []model.AuthorizationConditions{{
				{Attribute: model.RequestMethod, Values: []string{"GET"}},
				{Attribute: model.RequestPath, Values: []string{neverPath(i)}},
			}},
		})
	}
	return []authz.Policy{p}
}

func handDenying(n int) *hcmv3.HttpFilter {
	rules := &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{}}
	exact := func(text string) *matcherv3.StringMatcher {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: text}}
	}
	for i := range n {
		rules.Policies[fmt.Sprint("rule-", i)] = &rbacv3.Policy{
			Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_AndRules{
				AndRules: &rbacv3.Permission_Set{Rules: []*rbacv3.Permission{
					{Rule: &rbacv3.Permission_Header{Header: &routev3.HeaderMatcher{
						Name:                 ":method",
						HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: exact("GET")},
					}}},
					{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
						Rule: &matcherv3.PathMatcher_Path{Path: exact(neverPath(i))},
					}}},
				}},
			}}},
		}
	}
	return filterWith("rbac", &httprbacv3.RBAC{Rules: rules})
}

func handVerifying(keys string) *hcmv3.HttpFilter {
	return filterWith("jwt", &jwtv3.JwtAuthentication{
		Providers: map[string]*jwtv3.JwtProvider{"a": {
			Issuer: "https://a.test", Forward: true, PayloadInMetadata: "payload",
			JwksSourceSpecifier: &jwtv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: keys},
			}},
		}},
		Rules: []*jwtv3.RequirementRule{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			RequirementType: &jwtv3.RequirementRule_Requires{Requires: &jwtv3.JwtRequirement{
				RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: "a"},
			}},
		}},
	})
}

func handAsking(cluster string) *hcmv3.HttpFilter {
	return filterWith("ext_authz", authorizer(cluster))
}

// handAskingForPaths asks about requests for paths under /some/, and skips the filter for others.
func handAskingForPaths(cluster string) *hcmv3.HttpFilter {
	path := &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input: &xdscorev3.TypedExtensionConfig{
			Name: "path", TypedConfig: pb.Any(&matcherv3.HttpRequestHeaderMatchInput{HeaderName: ":path"}),
		},
		Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{
			ValueMatch: &xdsmatcherv3.StringMatcher{
				MatchPattern: &xdsmatcherv3.StringMatcher_Prefix{Prefix: "/some/"},
			},
		},
	}
	others := &xdsmatcherv3.Matcher_MatcherList_Predicate{
		MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{
			NotMatcher: &xdsmatcherv3.Matcher_MatcherList_Predicate{
				MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: path},
			},
		},
	}
	skips := &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "skip", TypedConfig: pb.Any(&skipv3.SkipFilter{})},
	}}
	return filterWith("ext_authz", &withmatcherv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{
			Name: "envoy.filters.http.ext_authz", TypedConfig: pb.Any(authorizer(cluster)),
		},
		XdsMatcher: &xdsmatcherv3.Matcher{MatcherType: &xdsmatcherv3.Matcher_MatcherList_{
			MatcherList: &xdsmatcherv3.Matcher_MatcherList{Matchers: []*xdsmatcherv3.Matcher_MatcherList_FieldMatcher{
				{Predicate: others, OnMatch: skips},
			}},
		}},
	})
}

func authorizer(cluster string) *extauthzv3.ExtAuthz {
	return &extauthzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3,
		Services: &extauthzv3.ExtAuthz_HttpService{HttpService: &extauthzv3.HttpService{
			ServerUri: &corev3.HttpUri{
				Uri: "http://ext.test", Timeout: durationpb.New(time.Second),
				HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
			},
		}},
	}
}

func filterWith(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pb.Any(config)}}
}

// signed is a token of the issuer https://a.test.
func signed(key []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
			`{"iss":"https://a.test","sub":"me","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	sum := hmac.New(sha256.New, key)
	_, _ = io.WriteString(sum, text)
	return text + "." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// batch is how many requests one of the listeners gets before it is the next one's turn.
const batch = 200

// Names of the listeners that measure compares. The filters of apart are a resource of the same
// name, as Envoys since 1.40 get them; those of within are parts of the listener, as all others do.
const (
	apart  = "apart"
	within = "within"
	byHand = "by hand"
)

// measure sends b.N batches to each listener.
func (c costCase) measure(b *testing.B, r *adscript.Run) {
	// Without a timeout of its fetch no filter but the pushed one can be in force.
	list := adscript.WithFilter(costListener(apart, nil), apart, 0, true)
	r.AwaitAck(r.Send(
		adscript.Push(c.name, list, costListener(within, authz.HTTP(c.in)), costListener(byHand, c.byHand)),
		adscript.Push(c.name, authz.Resource(apart, c.in))))
	client := &http.Client{}
	defer client.CloseIdleConnections()
	names := []string{apart, within, byHand}
	send := map[string]func(){}
	for _, name := range names {
		var at netip.AddrPort
		r.Until("it listens", func() bool { at = r.Address(name); return at.IsValid() })
		send[name] = func() { c.send(b, client, "http://"+at.String()+"/some/path") }
		send[name]() // connections, and what is made at the first request
	}
	spent := map[string]time.Duration{}
	for b.Loop() {
		for _, name := range names {
			before := r.CPU()
			for range batch {
				send[name]()
			}
			spent[name] += r.CPU() - before
		}
	}
	of := func(name string) float64 { return float64(spent[name].Nanoseconds()) / float64(b.N*batch) / 1000 }
	b.ReportMetric(of(apart), "apart-cpu-µs/req")
	b.ReportMetric(of(within), "within-cpu-µs/req")
	b.ReportMetric(of(byHand), "hand-cpu-µs/req")
	b.ReportMetric(100*(of(apart)/of(byHand)-1), "%more-apart")
	b.ReportMetric(100*(of(within)/of(byHand)-1), "%more-within")
}

func (c costCase) send(b *testing.B, client *http.Client, url string) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(b, err)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := client.Do(req)
	require.NoError(b, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(b, resp.Body.Close())
	require.Equal(b, http.StatusOK, resp.StatusCode)
}

// costListener answers what its filters let through.
func costListener(name string, filters []*hcmv3.HttpFilter) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: name, Address: pb.Address("127.0.0.1", 0),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "http",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(&hcmv3.HttpConnectionManager{
				StatPrefix: "http",
				RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{
					RouteConfig: adscript.RouteTable("rc", adscript.AnsweringHost("all", "ok", "*")),
				},
				HttpFilters: append(filters[:len(filters):len(filters)], filterWith("router", &routerv3.Router{})),
			})},
		}}}},
	}
}
