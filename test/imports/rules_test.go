package imports

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// rule is what one package of the product may import of the others. All are below internal but the
// charts, which stand where people look for them.
type rule struct{ pkg, may string }

// rules have a line for each package, in the order of the flow: a package imports only what stands
// above it. Whoever adds a package decides here where it stands; the linter's rules are made of
// these (TestLinterHasTheseRules).
var rules = []rule{
	{"charts", ""},
	{"observe", ""},
	{"observe/memory", ""},
	{"observe/footprint", ""},
	{"api/istionames", ""},
	{"api/compliance", ""},
	{"app/config", "api/compliance"},
	{"cli/terminal", ""},
	{"cli/build", ""},
	{"cli/command", "cli/terminal"},
	{"api/ratelimit", ""},
	{"api/kinds", "api/ratelimit"},
	{"source", "api/kinds"},
	{"source/istiojson", "api/kinds"},
	{"source/untrusted", ""},
	{"source/manifest", "api/kinds source source/istiojson source/untrusted"},
	{"source/memory", "api/kinds source"},
	{"source/mirror", "api/kinds source"},
	{"source/dir", "api/kinds source source/manifest"},
	{"source/selected", "api/kinds source"},
	{"source/kube", "observe api/kinds source source/istiojson source/selected source/untrusted"},
	{"api/model", "api/compliance api/kinds source"},
	{"api/jwks", ""},
	{"api/cel", ""},
	{"api/envoyfilter", "source api/model"},
	{"api/extension", "api/envoyfilter api/kinds source api/model"},
	{"api/limits", "api/ratelimit api/model"},
	{"api/convert", "api/kinds source source/istiojson source/untrusted api/cel api/envoyfilter api/extension " +
		"api/jwks api/limits api/model api/ratelimit"},
	{"api/differences", "api/kinds source api/model api/convert"},
	{"mesh/policy", "api/model"},
	{"mesh/forkmap", ""},
	{"mesh/state", "api/kinds source api/model mesh/forkmap"},
	{"mesh/validate", "api/kinds source api/model mesh/state"},
	{"mesh/schedule", "api/kinds source api/model api/convert mesh/state mesh/validate"},
	{"mesh/scope", "api/kinds source api/model mesh/state"},
	{"mesh/census", "api/kinds api/model mesh/state mesh/scope"},
	{"xds/nametable", ""},
	{"xds/proxystats", ""},
	{"translate/pb", "api/compliance api/model"},
	{"translate/evaluate", "api/jwks api/model mesh/policy"},
	{"translate/authz", "api/jwks api/model translate/pb"},
	{"translate/cluster", "api/kinds api/model translate/pb"},
	{"translate/patch", "source api/model translate/pb"},
	{"translate/endpoint", "api/model translate/pb"},
	{"translate/listener", "api/cel api/model translate/pb xds/proxystats"},
	{"translate/route", "api/kinds source api/model translate/pb"},
	{"translate/secret", "api/model"},
	{"translate/name", "api/model xds/nametable"},
	{"xds/typeurl", ""},
	{"agent/metrics", ""},
	{"agent/dns", "agent/metrics xds/nametable"},
	{"agent/wire", "api/compliance"},
	{"agent/wasm", "agent/metrics"},
	{"agent/xdsproxy", "xds/typeurl agent/wire"},
	{"agent/certs", "xds/typeurl agent/wire"},
	{"agent/callers", ""},
	{"agent/settings", "api/compliance xds/proxystats"},
	{"agent/health", "agent/settings"},
	{"agent/meshstats", "xds/proxystats"},
	{"agent/bootstrap", "agent/settings xds/proxystats"},
	{"agent/envoy", "agent/settings"},
	{"agent/status", "agent/metrics agent/settings agent/meshstats"},
	{"agent", "xds/typeurl xds/nametable xds/proxystats agent/wire agent/xdsproxy agent/certs agent/metrics " +
		"agent/dns agent/meshstats agent/settings agent/bootstrap agent/envoy agent/status observe/footprint " +
		"agent/callers agent/health agent/wasm"},
	{"agent/intercept", ""},
	{"agent/command", "agent/settings agent agent/intercept"},
	{"xds/resource", "api/model xds/typeurl"},
	{"compile", "api/kinds source api/model mesh/forkmap mesh/state mesh/scope translate/pb translate/authz " +
		"translate/cluster translate/endpoint translate/listener translate/patch translate/route translate/secret " +
		"translate/name xds/resource xds/proxystats"},
	{"xds/session", "xds/resource"},
	{"xds/fanout", "observe xds/resource xds/session"},
	{"xds/admission", ""},
	{"xds/serve", "observe xds/resource xds/session xds/fanout xds/admission"},
	{"admin/page", "api/kinds source mesh/policy mesh/census"},
	{"admin/fields", "admin/page"},
	{"admin/history", "api/kinds source xds/resource admin/page admin/fields"},
	{"admin", "api/kinds source api/model mesh/policy mesh/state mesh/scope mesh/census xds/resource xds/session " +
		"xds/serve admin/page"},
	{"trust/ca", "observe"},
	{"trust/keysets", "observe api/jwks"},
	{"cluster/keysets", "api/jwks"},
	{"cluster/tokenreview", ""},
	{"cluster/accessreview", ""},
	{"cluster/certs", ""},
	{"cluster/leader", ""},
	{"cluster/machines", "observe api/kinds"},
	{"install", "api/kinds"},
	{"install/reach", "api/kinds install"},
	{"install/render", "charts"},
	{"install/tags", "api/kinds install/render"},
	{"install/workload", "api/model install"},
	{"install/spec", "app/config api/kinds source source/istiojson source/untrusted api/model api/convert " +
		"install install/render"},
	{"cluster/inject/gotemplate", "source/untrusted"},
	{"cluster/unions", ""},
	{"cluster/inject", "api/istionames source/istiojson source/untrusted api/model cluster/unions " +
		"cluster/inject/gotemplate"},
	{"compile/offline", "api/istionames api/kinds source api/model api/convert mesh/state mesh/scope compile " +
		"xds/resource"},
	{"install/precheck", "app/config api/kinds source source/untrusted source/manifest api/model api/convert " +
		"api/differences api/istionames cluster/inject compile/offline"},
	{"cluster/inject/watch", "observe cluster/inject"},
	{"cluster/status", "observe api/kinds source api/model"},
	{"cluster/gateways", "observe source source/untrusted api/model cluster/unions"},
	{"cluster/webhook", "observe api/kinds source source/untrusted source/manifest api/model api/convert " +
		"cluster/inject"},
	{"cluster/webhook/registration", "observe api/kinds"},
	{"app", "observe app/config api/compliance api/kinds source source/manifest api/jwks api/model api/convert " +
		"mesh/policy mesh/state mesh/validate mesh/schedule mesh/scope mesh/census xds/resource " +
		"xds/proxystats compile xds/fanout xds/serve admin/page admin/fields admin/history admin " +
		"cluster/tokenreview cluster/certs cluster/leader install cluster/status cluster/gateways " +
		"cluster/inject cluster/inject/watch cluster/webhook cluster/webhook/registration trust/ca " +
		"trust/keysets cluster/keysets cluster/machines"},
	{"local/sample", ""},
	{"local/agents", "observe agent/certs agent/wire trust/ca"},
	{"local", "api/kinds source api/model api/convert trust/ca local/agents xds/proxystats"},
	{"perf/measure", ""},
	{"local/observe", "agent/meshstats xds/proxystats local perf/measure"},
	{"local/link", "source local"},
	{"perf/port", ""},
	{"perf/flame", ""},
	{"perf/sizing", "perf/measure"},
	{"observe/advise", "api/kinds api/model mesh/census perf/measure perf/sizing"},
	{"observe/advise/collect", "api/model mesh/census observe/advise perf/measure"},
	{"perf/load", "api/kinds source"},
	{"perf/controlplane", "api/kinds source local local/link perf/measure perf/port perf/load"},
	{"perf/sidecar", "xds/typeurl"},
	{"perf/apart", "perf/sidecar"},
	{"perf", "cli/terminal source xds/typeurl perf/measure perf/sizing perf/load perf/controlplane " +
		"perf/sidecar perf/apart"},
	{"perf/book", "perf/measure"},
	{"perf/traffic", "perf/measure"},
	{"perf/handwritten", ""},
	{"perf/dataplane", "app/config cli/terminal api/model source/dir app local/agents local perf/handwritten " +
		"perf/measure perf/traffic"},
	{"perf/airline", ""},
	{"perf/cpulimit", ""},
	{"perf/jmeter", "cli/terminal perf/measure"},
	{"perf/lab", "api/istionames api/kinds cli/terminal source source/manifest source/memory perf/measure perf/load " +
		"perf/controlplane perf perf/dataplane perf/airline perf/cpulimit perf/handwritten xds/proxystats"},
	{"observe/htmlpage", ""},
	{"perf/htmlreport", "cli/terminal observe/advise observe/htmlpage perf/measure perf perf/dataplane perf/lab"},
	{"install/apply", "api/kinds"},
	{"cli/installer", "api/kinds cli/build cli/command cli/terminal install/spec install/apply cluster/inject " +
		"install/precheck install/render install/tags install/workload install"},
	{"cli/loadtest", "cli/build cli/command cli/terminal perf/measure perf/traffic perf/dataplane perf/airline " +
		"perf/jmeter perf/lab perf/htmlreport"},
	{"cli/results", "cli/command"},
	{"cli/process", "app app/config cli/command observe observe/footprint observe/memory"},
	{"cli/serve", "admin/page api/compliance api/model app app/config cli/build cli/command cli/process " +
		"cluster/accessreview cluster/certs cluster/inject/watch cluster/leader cluster/tokenreview install observe " +
		"source/dir source/kube source/mirror source/selected trust/ca"},
	{"cli/discovery", "cli/build cli/command cli/serve"},
	{"cli/remote", "admin/page cli/command install/reach perf/measure"},
	{"cli/inspect", "charts admin/page api/convert api/differences api/kinds api/model app app/config cli/build " +
		"cli/command cli/remote cli/results cli/terminal cluster/inject compile/offline install install/precheck " +
		"local/observe mesh/census mesh/policy observe observe/advise observe/advise/collect observe/htmlpage " +
		"perf/measure source source/dir source/kube source/mirror source/selected translate/evaluate " +
		"xds/resource"},
	{"cli/up", "charts api/model app app/config cli/build cli/command cli/inspect cli/process cli/terminal " +
		"local local/agents local/link local/observe local/sample mesh/state source source/dir " +
		"source/mirror source/selected xds/fanout"},
	{"cli/perf", "api/model app cli/build cli/command cli/process cli/remote cli/results cli/terminal local " +
		"local/link perf perf/apart perf/book perf/controlplane perf/flame perf/load perf/measure " +
		"perf/port perf/sizing"},
	{"cli", "cli/build cli/command cli/inspect cli/perf cli/serve cli/terminal cli/up"},
}

// charts is the one package outside of internal.
const charts = "charts"

// directory is where a package stands.
func directory(pkg string) string {
	if pkg == charts {
		return pkg
	}
	return "internal/" + pkg
}

// mayImport returns the rules by package.
func mayImport() map[string][]string {
	all := map[string][]string{}
	for _, r := range rules {
		all[r.pkg] = strings.Fields(r.may)
	}
	return all
}

func TestRulesPointLeft(t *testing.T) {
	var left []string
	for _, r := range rules {
		for _, other := range strings.Fields(r.may) {
			require.Contains(t, left, other, "%s may import %s, which does not stand above it", r.pkg, other)
		}
		left = append(left, r.pkg)
	}
}

// maxEntries is how many entries internal may have: a reader keeps that many in mind.
const maxEntries = 17

func TestInternalHasFewEntriesThatTheArchitecturePageNames(t *testing.T) {
	entries, err := os.ReadDir("../../internal")
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), maxEntries, "entries of internal")
	architecture, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	var folders []string // the first column of the table
	for line := range strings.Lines(string(architecture)) {
		if columns := strings.Split(line, "|"); len(columns) > 2 {
			folders = append(folders, strings.Split(columns[1], ",")...)
		}
	}
	for _, e := range entries {
		named := slices.ContainsFunc(folders, func(folder string) bool {
			return strings.TrimSpace(folder) == "`internal/"+e.Name()+"`"
		})
		require.True(t, named, "the table of docs/architecture.md does not name internal/%s", e.Name())
	}
}

// linterFile has the rules for editors, between two lines that say so.
const (
	linterFile  = "../../.golangci.yml"
	rulesBegin  = "      rules: # written from test/imports/rules_test.go by go test ./test/imports -update\n"
	rulesAreOut = "    # end of what is written\n"
)

func TestLinterHasTheseRules(t *testing.T) {
	config, err := os.ReadFile(linterFile)
	require.NoError(t, err)
	before, rest, begun := strings.Cut(string(config), rulesBegin)
	_, after, ended := strings.Cut(rest, rulesAreOut)
	require.True(t, begun && ended, "%s lacks the lines around the rules", linterFile)
	golden.File(t, linterFile, before+rulesBegin+depguard()+rulesAreOut+after)
}

// depguard is the configuration of the linter of that name.
func depguard() string {
	var b strings.Builder
	for _, r := range rules {
		var allowed []string
		for _, other := range strings.Fields(r.may) {
			allowed = append(allowed, fmt.Sprintf("%q", module+directory(other)+"$"))
		}
		fmt.Fprintf(&b, `        %s:
          list-mode: lax
          files: ["**/%s/*.go", "!**/*_test.go"]
          allow: [%s]
          deny:
            - pkg: %s
              desc: does not stand to the left of %s
`, strings.ReplaceAll(r.pkg, "/", "-"), directory(r.pkg), strings.Join(allowed, ", "),
			strings.TrimSuffix(module, "/"), directory(r.pkg))
	}
	return b.String()
}
