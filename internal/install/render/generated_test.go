package render

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// files is where the charts have what is generated.
const files = "../../../charts/"

// TestChartHasTheRightsOfTheTable: rights are the least that a control plane needs. It reads the
// kinds that it translates, writes statuses of Istio's kinds, and otherwise touches only its own
// objects, by name, and the webhooks that inject for its tags.
func TestChartHasTheRightsOfTheTable(t *testing.T) {
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"cluster-rules.yaml": clusterRules(), "namespace-rules.yaml": namespaceRules(),
		"gateway-rules.yaml": gatewayRules(), "machine-rules.yaml": machineRules(),
	} {
		text, err := yaml.Marshal(rules)
		require.NoError(t, err)
		rules := strings.ReplaceAll(string(text), "'", "")
		if name == "cluster-rules.yaml" {
			require.Equal(t, 1, strings.Count(rules, secrets))
			rules = strings.Replace(rules, secrets, secretsUnlessNamed, 1)
		}
		golden.File(t, files+"lateen/files/"+name, rules)
	}
	groups, err := yaml.Marshal(kinds.ValidatedGroups())
	require.NoError(t, err)
	golden.File(t, files+"lateen/files/validated-groups.yaml", string(groups))
}

// TestChartHasIstiosKinds: those of the module that Lateen is built with.
func TestChartHasIstiosKinds(t *testing.T) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	require.NoError(t, err)
	path := filepath.Join(strings.TrimSpace(string(module)), "kubernetes", "customresourcedefinitions.gen.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	golden.File(t, files+"base/files/crds.yaml", string(text))
}

// Secrets are read in all namespaces, unless their namespaces are named.
const (
	secrets            = "  - secrets\n"
	secretsUnlessNamed = `  {{- if not (include "lateen.pilot" . | fromJson).secretNamespaces }}` + "\n" + secrets +
		"  {{- end }}\n"
)

// Names in the rules are those of the release.
const (
	servingSecret = `{{ include "lateen.servingSecret" . }}`
	lease         = `{{ include "lateen.lease" . }}`
	keySets       = `{{ include "lateen.keySets" . }}`
	validator     = `{{ include "lateen.validator" . }}`
)

var (
	watched = []string{"list", "watch"} // what informers need
	read    = append([]string{"get"}, watched...)
)

// rules returns a rule for some resources of a group.
func rules(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// named limits a rule to some objects. A list or a watch must select one of the names.
func named(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	r.ResourceNames = names
	return r
}

// rootNamespace stands for the namespace of the release.
const rootNamespace = "root"

// reads returns the rules for what the source reads in the root namespace, or in all (empty), by
// group.
func reads(namespace string) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, r := range kube.WatchedResources(rootNamespace) {
		if r.Namespace != namespace {
			continue
		}
		verbs := watched
		if hasStatus(r.Group) {
			verbs = read // an object is looked at again before its status is written
		}
		all = byGroup(all, rules(r.Group, verbs, r.Resource))
	}
	return all
}

// withStatus returns the kinds whose statuses Lateen writes.
func withStatus() []*kinds.Descriptor {
	return slices.Concat(
		kinds.WithStatus(kinds.Conditions), kinds.WithStatus(kinds.Address), kinds.WithStatus(kinds.Attachments),
	)
}

// hasStatus reports whether Lateen writes statuses of objects of a group.
func hasStatus(group string) bool {
	return slices.ContainsFunc(withStatus(), func(d *kinds.Descriptor) bool { return d.Group == group })
}

// writes returns the rules for statuses, by group.
func writes() []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, d := range withStatus() {
		all = byGroup(all, rules(d.Group, []string{"patch"}, d.Resource+"/status"))
	}
	return all
}

// byGroup adds a rule. Rules of one group are merged.
func byGroup(all []rbacv1.PolicyRule, r rbacv1.PolicyRule) []rbacv1.PolicyRule {
	for i := range all {
		if all[i].APIGroups[0] == r.APIGroups[0] {
			all[i].Resources = append(all[i].Resources, r.Resources...)
			return all
		}
	}
	return append(all, r)
}

// clusterRules returns what Lateen may do in all namespaces.
func clusterRules() []rbacv1.PolicyRule {
	all := append(reads(""),
		rules("authentication.k8s.io", []string{"create"}, "tokenreviews"),
		rules("authorization.k8s.io", []string{"create"}, "subjectaccessreviews"))
	all = append(all, writes()...)
	const admission = "admissionregistration.k8s.io"
	update := append([]string{"update"}, read...)
	return append(all,
		// The roots of the mesh in each namespace. No name can limit who creates.
		rules("", []string{"create"}, "configmaps"),
		named(rules("", append([]string{"patch"}, watched...), "configmaps"), ca.RootsConfigMap, ca.RevokedConfigMap),
		named(rules(admission, update, "validatingwebhookconfigurations"), validator),
		// Who makes a tag chooses the name of its webhook, so no name can limit whose roots are
		// set.
		rules(admission, []string{"update"}, "mutatingwebhookconfigurations"),
	)
}

// namespaceRules returns what Lateen may do in its root namespace in addition.
func namespaceRules() []rbacv1.PolicyRule {
	probe := kinds.Of(kinds.Gateway)
	update := append([]string{"update"}, read...)
	return append(reads(rootNamespace),
		// It may not create Secrets, since one that it made itself could be filled with anybody's
		// token. The manifests have an empty one.
		named(rules("", update, "secrets"), servingSecret),
		named(rules("", update, "secrets"), ca.SelfSigned),
		named(rules("", read, "secrets"), ca.Plugged),
		named(rules("", []string{"update"}, "configmaps"), keySets),
		rules("coordination.k8s.io", []string{"create"}, "leases"), // which no name can limit
		named(rules("coordination.k8s.io", []string{"get", "update"}, "leases"), lease),
		// A dry run of an object that is to be refused, to see whether the API server asks the
		// webhook.
		rules(probe.Group, []string{"create"}, probe.Resource),
	)
}

// machineRules returns what it takes to keep the WorkloadEntries of machines that register
// themselves, in all namespaces, since a machine may be of any.
func machineRules() []rbacv1.PolicyRule {
	d := kinds.Of(kinds.WorkloadEntry)
	return []rbacv1.PolicyRule{rules(d.Group, []string{"create", "patch", "delete"}, d.Resource)}
}

// gatewayRules returns what it takes to deploy Gateways: in all namespaces, since a Gateway may be
// in any, or in those that are named. It deletes what parameters may ask for and cease to.
func gatewayRules() []rbacv1.PolicyRule {
	apply := []string{"get", "create", "patch"}
	optional := append([]string{"delete"}, apply...)
	return []rbacv1.PolicyRule{
		rules("", apply, "serviceaccounts", "services"),
		rules("apps", apply, "deployments"),
		rules("autoscaling", optional, "horizontalpodautoscalers"),
		rules("policy", optional, "poddisruptionbudgets"),
		rules("", []string{"get"}, "configmaps"), // parameters
	}
}
