package convert

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

const (
	wantHost     = `a host name as "reviews.default.svc.cluster.local"`
	wantWildcard = `a host name as "reviews.default.svc.cluster.local", or a wildcard as "*.example.com"`
	wantLabel    = "lower-case letters, digits and hyphens, at most 63"

	wantTrustDomain = `lower-case letters, digits, dots, hyphens and underscores, as "cluster.local"`
)

// resolve reads a host name. A short name is one of the object's own namespace.
func (r *reader) resolve(p path, name string, wildcards bool) (model.Host, bool) {
	if !r.isHost(p, name, wildcards) {
		return "", false
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return model.Host(a.Unmap().String()), true
	}
	return model.Resolve(strings.TrimSuffix(name, "."), r.meta.Namespace, r.mesh.Domain), true
}

// literal reads a host name that is not completed if it is short.
func (r *reader) literal(p path, name string, wildcards bool) (model.Host, bool) {
	if !r.isHost(p, name, wildcards) {
		return "", false
	}
	return model.Host(strings.ToLower(strings.TrimSuffix(name, "."))), true
}

func (r *reader) isHost(p path, name string, wildcards bool) bool {
	wrong := hostMistake(name, wildcards)
	if wrong == "" {
		return true
	}
	want := wantHost
	if wildcards {
		want = wantWildcard
	}
	r.fail(p, name, wrong, want)
	return false
}

// hostMistake returns what is wrong with a host name, or "".
func hostMistake(name string, wildcards bool) string {
	if a, err := netip.ParseAddr(name); err == nil && a.Zone() == "" {
		return ""
	}
	name = strings.TrimSuffix(name, ".")
	switch {
	case name == "":
		return "is empty"
	case len(name) > 253:
		return "has more than 253 characters"
	case strings.HasPrefix(name, "*") && !wildcards:
		return "may not be a wildcard"
	case name == "*":
		return ""
	}
	name = strings.TrimPrefix(name, "*.")
	if strings.Contains(name, "*") {
		return "has a wildcard that is not its whole first label"
	}
	last := ""
	for last = range strings.SplitSeq(name, ".") {
		if wrong := labelMistake(last); wrong != "" {
			return wrong
		}
	}
	if isNumber(last) {
		return "ends in a number"
	}
	return ""
}

// isNumber reports whether a label is a number, decimal or hexadecimal. Some resolvers read a name
// that ends so as an address: 127.1, 0x7f.1 and 2130706433 are 127.0.0.1 (inet_aton).
func isNumber(label string) bool {
	hex, is := strings.CutPrefix(strings.ToLower(label), "0x")
	return is && strings.Trim(hex, "0123456789abcdef") == "" || strings.Trim(label, "0123456789") == ""
}

// labelMistake returns what is wrong with a label of a host name, or "". Underscores are in no RFC,
// but in use.
func labelMistake(label string) string {
	switch {
	case label == "":
		return "has an empty label"
	case len(label) > 63:
		return "has a label of more than 63 characters"
	case label[0] == '-' || label[len(label)-1] == '-':
		return "has a label that begins or ends with a hyphen"
	case strings.ContainsFunc(label, func(c rune) bool { return !isAlphanumeric(c) && c != '-' && c != '_' }):
		return "has a character that no host name has"
	}
	return ""
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isName reports whether s can be the name of a namespace, a subset or a port (RFC 1123 label).
func isName(s string) bool {
	return labelMistake(s) == "" && s == strings.ToLower(s) && !strings.Contains(s, "_")
}

// isObjectName reports whether s can be the name of an object (RFC 1123 subdomain).
func isObjectName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if !isName(part) {
			return false
		}
	}
	return true
}

// isTrustDomain reports whether s can be the name of a trust domain (SPIFFE).
func isTrustDomain(s string) bool {
	return s != "" && len(s) <= 255 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// gateways reads names of gateways: "mesh", "name" in the object's own namespace, "namespace/name",
// "./name", and the old form "name.namespace.svc.cluster.local".
func (r *reader) gateways(p path, names []string) []string {
	var out []string
	for i, name := range names {
		resolved, ok := r.gatewayName(name)
		if !ok {
			r.fail(p.at(i), name, "is no name of a gateway", `"mesh", "name" or "namespace/name"`)
			continue
		}
		out = append(out, resolved)
	}
	return sorted(out)
}

func (r *reader) gatewayName(name string) (string, bool) {
	if name == model.Mesh {
		return name, true
	}
	namespace, short, qualified := strings.Cut(name, "/")
	switch {
	case qualified && namespace == ".":
		namespace = r.meta.Namespace
	case !qualified && strings.Contains(name, "."):
		var rest string
		short, rest, _ = strings.Cut(name, ".")
		namespace, _, _ = strings.Cut(rest, ".")
	case !qualified:
		namespace, short = r.meta.Namespace, name
	}
	return namespace + "/" + short, isObjectName(short) && (namespace == r.meta.Namespace || isName(namespace))
}

// exports reads an exportTo list. An empty one is the mesh's default.
func (r *reader) exports(p path, list []string, byDefault model.Exports) model.Exports {
	if len(list) == 0 {
		return byDefault
	}
	var e model.Exports
	for i, name := range list {
		switch {
		case name == "*":
			e.All = true
		case name == ".":
			e.Own = true
		case name == "~":
			e.None = true
		case isName(name):
			e.Namespaces = append(e.Namespaces, name)
		default:
			r.fail(p.at(i), name, "is no namespace", `".", "*", "~" or the name of a namespace`)
		}
	}
	e.Namespaces = sorted(e.Namespaces)
	switch {
	case e.None && len(list) > 1:
		r.fail(
			p, strings.Join(list, ","), `holds "~" (nobody) beside others; the object is not exported`,
			`"~" alone, or none`,
		)
		return model.Exports{None: true}
	case e.None:
		return model.Exports{None: true}
	case e.All:
		return model.Exports{All: true}
	case !e.Own && len(e.Namespaces) == 0:
		return r.unreadableExports()
	}
	return e
}

// unreadableExports is the meaning of a list without a readable entry. A service is seen by nobody.
// A rule for calling one stays in force in its own namespace: without it calls might be less
// protected.
func (r *reader) unreadableExports() model.Exports {
	if r.meta.Kind == kinds.Service || r.meta.Kind == kinds.ServiceEntry {
		return model.Exports{None: true}
	}
	return model.Exports{Own: true}
}

// selector reads a label selector. A label that no object can have makes the whole selector
// unusable.
func (r *reader) selector(p path, m map[string]string) (model.Labels, bool) {
	ok := true
	for _, k := range sortedKeys(m) {
		if !isLabel(k, m[k]) {
			r.fail(
				p.key(k), m[k], "is no label that an object can have",
				"a label as Kubernetes takes it, without wildcards",
			)
			ok = false
		}
	}
	if !ok {
		return model.Labels{}, false
	}
	return model.LabelsOf(m), true
}

// labels reads the labels of something that is selected. It leaves out those that no object can
// have.
func (r *reader) labels(p path, m map[string]string) model.Labels {
	if !slices.ContainsFunc(sortedKeys(m), func(k string) bool { return !isLabel(k, m[k]) }) {
		return model.LabelsOf(m)
	}
	kept := map[string]string{}
	for _, k := range sortedKeys(m) {
		if isLabel(k, m[k]) {
			kept[k] = m[k]
			continue
		}
		r.fail(p.key(k), m[k], "is no label that an object can have", "a label as Kubernetes takes it")
	}
	return model.LabelsOf(kept)
}

// isLabel is the API server's rule, except for the positions of punctuation. It keeps out what
// would break the text of model.Labels.
func isLabel(key, value string) bool {
	punctuation := func(allowed string) func(rune) bool {
		return func(c rune) bool { return !isAlphanumeric(c) && !strings.ContainsRune(allowed, c) }
	}
	return key != "" && len(key) <= 253+1+63 && len(value) <= 63 &&
		!strings.ContainsFunc(key, punctuation("-_./")) && !strings.ContainsFunc(value, punctuation("-_."))
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
