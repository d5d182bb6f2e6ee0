package conformance

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/gateway-api/apis/v1alpha3"
	xv1alpha1 "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/gateway-api/conformance"
	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

var (
	report = flag.String("report", "", "where the report is written (default: nowhere)")
	core   = flag.Bool("core", false, "run the core tests of each profile alone")
	quick  = flag.Bool("quick", false, "give up sooner, to find what fails")
)

// className is the class of the suite's Gateways.
const className = "lateen"

// unsupported are the features whose tests are not run, with the reason. What is here has no effect
// in Lateen, and is reported so in the status of the objects.
var unsupported = map[features.FeatureName]string{
	features.SupportUDPRoute:              "UDPRoutes are not read",
	features.SupportMeshClusterIPMatching: "sidecars choose the service of a request by its Host header, as Istio's do",
}

// TestConformance runs the suite of the Gateway API, each test of the features that Lateen
// supports.
func TestConformance(t *testing.T) {
	c := start(t)
	s, err := suite.NewConformanceTestSuite(c.suite(t))
	require.NoError(t, err)
	all := selected()
	s.Setup(t, all)
	t.Cleanup(func() { // after the suite's own, which says that it has ended
		r, err := s.Report()
		require.NoError(t, err)
		summarize(t, r)
		if *report != "" {
			writeReport(t, *report, r)
		}
	})
	require.NoError(t, s.Run(t, all))
}

// selected are the tests that are run. Some core tests expect something else of those that do not
// support an extended feature, so the features are the same for the core tests alone.
func selected() []suite.ConformanceTest {
	if !*core {
		return tests.ConformanceTests
	}
	needed := suite.GatewayHTTPConformanceProfile.CoreFeatures.Union(suite.GatewayGRPCConformanceProfile.CoreFeatures).
		Union(suite.GatewayTLSConformanceProfile.CoreFeatures).Union(suite.GatewayTCPConformanceProfile.CoreFeatures).
		Union(suite.MeshHTTPConformanceProfile.CoreFeatures).Union(suite.MeshGRPCConformanceProfile.CoreFeatures)
	return slices.DeleteFunc(slices.Clone(tests.ConformanceTests), func(test suite.ConformanceTest) bool {
		return !needed.HasAll(test.Features...)
	})
}

// suite returns the options of the suite, and creates the class of its Gateways.
func (c *cluster) suite(t *testing.T) suite.ConformanceOptions {
	t.Helper()
	k8s := c.clientOfAll(t)
	require.NoError(t, k8s.Create(t.Context(), &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: className},
		Spec:       gatewayv1.GatewayClassSpec{ControllerName: "istio.io/gateway-controller"},
	}))
	o := suite.ConformanceOptions{
		Client: k8s, Clientset: c.client, RestConfig: c.api.Config(),
		ManifestFS: []fs.FS{&conformance.Manifests},
	}
	o.GatewayClassName = className
	o.ConformanceProfiles = profiles()
	o.SupportedFeatures = supported()
	o.UsableNetworkAddresses = addresses("infra-backend-v1.gateway-conformance-infra.svc.cluster.local")
	o.UnusableNetworkAddresses = addresses("nobody.gateway-conformance-infra.svc.cluster.local")
	o.CleanupTestResources, o.DisableParallelTests = true, true
	o.TimeoutConfig = timeouts()
	o.Implementation = confv1.Implementation{
		Organization: "lateen-mesh", Project: "lateen", URL: "https://github.com/lateen-mesh/lateen",
		Version: version(t), Contact: []string{"https://github.com/lateen-mesh/lateen/issues"},
	}
	return o
}

// clientOfAll returns a client that knows all kinds of the Gateway API.
func (c *cluster) clientOfAll(t *testing.T) client.Client {
	t.Helper()
	log.SetLogger(logr.Discard())
	k8s, err := client.New(c.api.Config(), client.Options{})
	require.NoError(t, err)
	require.NoError(t, v1alpha3.Install(k8s.Scheme()))
	require.NoError(t, v1alpha2.Install(k8s.Scheme()))
	require.NoError(t, xv1alpha1.Install(k8s.Scheme()))
	require.NoError(t, gatewayv1.Install(k8s.Scheme()))
	require.NoError(t, apiextensionsv1.AddToScheme(k8s.Scheme()))
	return k8s
}

func profiles() []suite.ConformanceProfileName {
	return []suite.ConformanceProfileName{
		suite.GatewayHTTPConformanceProfileName, suite.GatewayGRPCConformanceProfileName,
		suite.GatewayTLSConformanceProfileName, suite.GatewayTCPConformanceProfileName,
		suite.MeshHTTPConformanceProfileName, suite.MeshGRPCConformanceProfileName,
	}
}

// addresses are those of Services, which the tests of static addresses ask for.
func addresses(host string) []gatewayv1.GatewaySpecAddress {
	kind := gatewayv1.HostnameAddressType
	return []gatewayv1.GatewaySpecAddress{{Type: &kind, Value: host}}
}

// supported are the features whose tests are run.
func supported() []features.FeatureName {
	all := features.SetsToNamesSet(features.AllFeatures)
	all.Delete(slices.Collect(maps.Keys(unsupported))...)
	return slices.Sorted(slices.Values(all.UnsortedList()))
}

func timeouts() config.TimeoutConfig {
	t := config.DefaultTimeoutConfig()
	if *quick {
		for _, timeout := range []*time.Duration{
			&t.GatewayMustHaveAddress, &t.GatewayMustHaveCondition, &t.GatewayStatusMustHaveListeners,
			&t.GatewayListenersMustHaveConditions, &t.HTTPRouteMustNotHaveParents, &t.HTTPRouteMustHaveCondition,
			&t.TLSRouteMustHaveCondition, &t.TCPRouteMustHaveCondition, &t.RouteMustHaveParents,
			&t.LatestObservedGenerationSet, &t.DefaultTestTimeout, &t.MaxTimeToConsistency,
		} {
			*timeout = min(*timeout, 15*time.Second)
		}
	}
	return t
}

// version is the control plane's, as the Makefile has it.
func version(t *testing.T) string {
	t.Helper()
	if v := os.Getenv("LATEEN_VERSION"); v != "" {
		return v
	}
	out, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
