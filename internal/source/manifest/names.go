package manifest

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// nameRule is a rule of Kubernetes for names. check returns what is wrong, want says what is right.
type nameRule struct {
	check func(string) []string
	want  string
}

var (
	// dnsLabel is the rule for namespaces (RFC 1123, a label).
	dnsLabel = nameRule{validation.IsDNS1123Label,
		`at most 63 lower-case letters, digits and "-", beginning and ending with a letter or digit`}
	// dnsSubdomain is the rule for most names (RFC 1123, a domain).
	dnsSubdomain = nameRule{func(s string) []string { return validation.IsDNS1123Subdomain(s) },
		`at most 253 lower-case letters, digits, "-" and ".", beginning and ending with a letter or digit`}
	// serviceName is the rule for Services, whose names become host names (RFC 1035).
	serviceName = nameRule{validation.IsDNS1035Label,
		`at most 63 lower-case letters, digits and "-", beginning with a letter and ending with a letter or digit`}
	labelName = nameRule{validation.IsQualifiedName,
		`at most 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit, ` +
			`after a domain and "/" if any`}
	labelValue = nameRule{validation.IsValidLabelValue,
		`at most 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit`}
)

// nameRuleOf returns the rule for the names of a kind.
func nameRuleOf(r kinds.NameRule) nameRule {
	switch r {
	case kinds.DNSLabel:
		return dnsLabel
	case kinds.ServiceName:
		return serviceName
	default:
		return dnsSubdomain
	}
}
