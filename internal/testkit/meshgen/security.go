package meshgen

import (
	"fmt"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// PoliciesOfANamespace is how many Security has.
const PoliciesOfANamespace = 1000

// keysURI is where the tokens' keys of Tokens are fetched.
const keysURI = "https://issuer.test/keys"

// Security is what Mesh leaves out: PoliciesOfANamespace AuthorizationPolicies of one namespace,
// each for another workload, and a RequestAuthentication with the keys that it needs. The proxy of
// the namespace (Proxies) is selected by the first policy and by the RequestAuthentication.
func Security(namespace int) []source.Change {
	all := []source.Change{Upsert(Tokens(namespace)), Upsert(FetchedKeys(0))}
	for i := range PoliciesOfANamespace {
		all = append(all, Upsert(AuthorizationPolicy(namespace, i)))
	}
	return all
}

// workloadOf is the workload that one of many objects of a namespace selects: of the first it is
// that of the namespace's proxy (Proxies), of the others one that has none.
func workloadOf(namespace, i int) string {
	if i == 0 {
		return Name(Number(namespace, Plain))
	}
	return fmt.Sprint("workload-", i)
}

// AuthorizationPolicy is the policy of a namespace with a number.
func AuthorizationPolicy(namespace, i int) *securityv1.AuthorizationPolicy {
	p := &securityv1.AuthorizationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(namespace), Name: fmt.Sprintf("policy-%04d", i)},
	}
	p.Spec.Selector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": workloadOf(namespace, i)}}
	p.Spec.Action = security.AuthorizationPolicy_DENY
	p.Spec.Rules = []*security.Rule{{
		From: []*security.Rule_From{{Source: &security.Source{
			NotPrincipals: []string{"cluster.local/ns/" + Namespace(namespace) + "/sa/default"},
		}}},
		To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{"/admin/*"}}}},
	}}
	return p
}

// Tokens is the RequestAuthentication of a namespace.
func Tokens(namespace int) *securityv1.RequestAuthentication {
	a := &securityv1.RequestAuthentication{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(namespace), Name: "tokens"},
	}
	a.Spec.Selector = &typev1beta1.WorkloadSelector{
		MatchLabels: map[string]string{"app": Name(Number(namespace, Plain))},
	}
	a.Spec.JwtRules = []*security.JWTRule{{Issuer: "https://issuer.test", JwksUri: keysURI}}
	return a
}

// FetchedKeys is what the control plane has fetched, which is another key for each variant.
func FetchedKeys(variant int) *corev1.ConfigMap {
	key := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"key-%06d",`+
		`"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, variant)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: kinds.KeySetsConfigMap("istio")},
		Data:       jwks.Encode([]jwks.Entry{{URI: keysURI, Keys: key}}),
	}
}

// TrustDomains is the mesh configuration with one alias of the trust domain.
func TrustDomains(alias string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: "istio"},
		Data:       map[string]string{"mesh": "trustDomainAliases: [" + alias + "]"},
	}
}
