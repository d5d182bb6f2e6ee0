package install

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

var (
	watched = []string{"list", "watch"} // what informers need
	read    = append([]string{"get"}, watched...)
)

// rules returns a rule for some resources of a group.
func rules(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// named limits a rule to one object. A list or a watch must select that name.
func named(r rbacv1.PolicyRule, name string) rbacv1.PolicyRule {
	r.ResourceNames = []string{name}
	return r
}

// reads returns the rules for what the source reads in one namespace, or in all (empty), by group.
func reads(n Names, namespace string) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, r := range kube.WatchedResources(n.Namespace) {
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
	return slices.Concat(kinds.WithStatus(kinds.Conditions), kinds.WithStatus(kinds.Address))
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
func clusterRules(n Names) []rbacv1.PolicyRule {
	all := append(reads(n, ""),
		rules("authentication.k8s.io", []string{"create"}, "tokenreviews"),
		rules("authorization.k8s.io", []string{"create"}, "subjectaccessreviews"))
	all = append(all, writes()...)
	const admission = "admissionregistration.k8s.io"
	webhook := rules(admission, append([]string{"update"}, read...), "validatingwebhookconfigurations")
	injector := rules(admission, append([]string{"update"}, read...), "mutatingwebhookconfigurations")
	return append(all,
		// The roots of the mesh in each namespace. No name can limit who creates.
		rules("", []string{"create"}, "configmaps"),
		named(rules("", append([]string{"patch"}, watched...), "configmaps"), ca.RootsConfigMap),
		named(webhook, n.Webhook),
		named(injector, n.Injector),
	)
}

// ownRules returns what Lateen may do in its root namespace in addition.
func ownRules(n Names) []rbacv1.PolicyRule {
	probe := kinds.Of(kinds.Gateway)
	return append(reads(n, n.Namespace),
		// It may not create Secrets, since one that it made itself could be filled with anybody's
		// token. The manifests have an empty one.
		named(rules("", append([]string{"update"}, read...), "secrets"), n.Secret),
		named(rules("", append([]string{"update"}, read...), "secrets"), ca.SelfSigned),
		named(rules("", read, "secrets"), ca.Plugged),
		rules("coordination.k8s.io", []string{"create"}, "leases"), // which no name can limit
		named(rules("coordination.k8s.io", []string{"get", "update"}, "leases"), n.Lease),
		// A dry run of an object that is to be refused, to see whether the API server asks the
		// webhook.
		rules(probe.Group, []string{"create"}, probe.Resource),
	)
}

func (o Options) roles() []runtime.Object {
	n := o.names()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.Namespace, Name: n.Deployment}}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	inCluster := metav1.ObjectMeta{Name: n.ClusterRole, Labels: o.labels()}
	rbac := rbacv1.SchemeGroupVersion.String()
	return []runtime.Object{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: o.meta(n.Deployment),
		},
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbac, Kind: "ClusterRole"},
			ObjectMeta: inCluster,
			Rules:      clusterRules(n),
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbac, Kind: "ClusterRoleBinding"}, ObjectMeta: inCluster,
			Subjects: subjects, RoleRef: ref("ClusterRole", n.ClusterRole),
		},
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbac, Kind: "Role"},
			ObjectMeta: o.meta(n.Deployment),
			Rules:      ownRules(n),
		},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbac, Kind: "RoleBinding"}, ObjectMeta: o.meta(n.Deployment),
			Subjects: subjects, RoleRef: ref("Role", n.Deployment),
		},
	}
}
