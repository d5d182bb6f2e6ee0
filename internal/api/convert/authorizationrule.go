package convert

import (
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// authorizationRules reads the rules of an AuthorizationPolicy. A mistake closes: a rule of an
// ALLOW policy matches fewer calls by it, and a rule of any other policy matches more.
type authorizationRules struct {
	*reader
	allows bool
}

// read returns nil for no rules. A rule that can match no call is left out.
func (r authorizationRules) read(p path, in []*security.Rule) *model.AuthorizationRules {
	out := &model.AuthorizationRules{}
	for i, rule := range in {
		if read, matches := r.rule(p.at(i), rule); matches {
			read.Index = i
			out.List = append(out.List, read)
		}
	}
	if len(out.List) == 0 {
		return nil
	}
	return out
}

// rule reads a rule. It returns false if the rule can match no call.
func (r authorizationRules) rule(p path, in *security.Rule) (model.AuthorizationRule, bool) {
	var out model.AuthorizationRule
	if in == nil {
		r.fail(p, nil, "is null; "+r.mistake(), "{} to match all calls")
		return out, !r.allows
	}
	var from, to, when bool
	out.From, from = alternatives(in.GetFrom(), func(i int, f *security.Rule_From) (conditions, bool) {
		return r.source(p.dot("from").at(i).dot("source"), f.GetSource())
	})
	out.To, to = alternatives(in.GetTo(), func(i int, t *security.Rule_To) (conditions, bool) {
		return r.operation(p.dot("to").at(i).dot("operation"), t.GetOperation())
	})
	out.When, when = r.conditions(p.dot("when"), in.GetWhen())
	return out, from && to && when
}

// mistake says what a mistake in a condition does.
func (r authorizationRules) mistake() string {
	if r.allows {
		return "instead, it matches no call"
	}
	return "instead, it matches every call"
}

// alternatives reads the conditions of which one has to match. Those that match no call are left
// out; if all do, alternatives returns false. No conditions, of one that is left, match every call.
func alternatives[T any](
	in []T, read func(int, T) (conditions, bool),
) (out []conditions, matches bool) {
	var any bool
	for i, one := range in {
		found, matches := read(i, one)
		if matches {
			out = append(out, found)
		}
		any = any || matches && len(found) == 0
	}
	if any {
		return nil, true
	}
	return out, len(in) == 0 || len(out) > 0
}

// conditions are those that a call has to meet.
type conditions = model.AuthorizationConditions

// field is a condition as users write it: two lists below p.
type field struct {
	values, notValues string
	model.AuthorizationCondition
}

func (r authorizationRules) source(p path, in *security.Source) (conditions, bool) {
	return r.fields(p, "source", []field{
		{"principals", "notPrincipals", condition(model.SourcePrincipal, in.GetPrincipals(), in.GetNotPrincipals())},
		{"requestPrincipals", "notRequestPrincipals", condition(
			model.RequestPrincipal, in.GetRequestPrincipals(), in.GetNotRequestPrincipals(),
		)},
		{"namespaces", "notNamespaces", condition(model.SourceNamespace, in.GetNamespaces(), in.GetNotNamespaces())},
		{"serviceAccounts", "notServiceAccounts", condition(
			model.SourceServiceAccount, in.GetServiceAccounts(), in.GetNotServiceAccounts(),
		)},
		{"trustDomains", "notTrustDomains", condition(
			model.SourceTrustDomain, in.GetTrustDomains(), in.GetNotTrustDomains(),
		)},
		{"ipBlocks", "notIpBlocks", condition(model.SourceIP, in.GetIpBlocks(), in.GetNotIpBlocks())},
		{"remoteIpBlocks", "notRemoteIpBlocks", condition(
			model.RemoteIP, in.GetRemoteIpBlocks(), in.GetNotRemoteIpBlocks(),
		)},
	})
}

func (r authorizationRules) operation(p path, in *security.Operation) (conditions, bool) {
	return r.fields(p, "operation", []field{
		{"hosts", "notHosts", condition(model.RequestHost, in.GetHosts(), in.GetNotHosts())},
		{"methods", "notMethods", condition(model.RequestMethod, in.GetMethods(), in.GetNotMethods())},
		{"paths", "notPaths", condition(model.RequestPath, in.GetPaths(), in.GetNotPaths())},
		{"ports", "notPorts", condition(model.DestinationPort, in.GetPorts(), in.GetNotPorts())},
	})
}

func condition(of model.AuthorizationAttribute, values, notValues []string) model.AuthorizationCondition {
	return model.AuthorizationCondition{Attribute: of, Values: values, NotValues: notValues}
}

// fields reads a source or an operation. It returns false if that can match no call.
func (r authorizationRules) fields(p path, what string, in []field) (conditions, bool) {
	var out conditions
	matches, set := true, false
	for _, f := range in {
		if len(f.Values)+len(f.NotValues) == 0 {
			continue
		}
		set = true
		read, ok := r.condition(p.dot(f.values), p.dot(f.notValues), f.AuthorizationCondition)
		matches = matches && ok
		if len(read.Values)+len(read.NotValues) > 0 {
			out = append(out, read)
		}
	}
	if !set {
		r.fail(p, nil, "is empty; "+r.mistake(), "at least one field of the "+what)
		return nil, !r.allows
	}
	return out, matches
}

// conditions reads "when", of which all have to match. It returns false if they can match no call.
func (r authorizationRules) conditions(p path, in []*security.Condition) (conditions, bool) {
	var out conditions
	matches := true
	for i, c := range in {
		at := p.at(i)
		attribute, known := r.attribute(at.dot("key"), c.GetKey())
		if known && len(c.GetValues())+len(c.GetNotValues()) == 0 {
			r.fail(at, nil, "has no values; "+r.mistake(), "values or notValues")
			known = false
		}
		if !known {
			matches = matches && !r.allows
			continue
		}
		attribute.Values, attribute.NotValues = c.GetValues(), c.GetNotValues()
		read, ok := r.condition(at.dot("values"), at.dot("notValues"), attribute)
		matches = matches && ok
		if len(read.Values)+len(read.NotValues) > 0 {
			out = append(out, read)
		}
	}
	return out, matches
}

// attributes are the keys of "when" without a name in brackets.
func attributeOf(key string) (model.AuthorizationAttribute, bool) {
	switch key {
	case "source.ip":
		return model.SourceIP, true
	case "remote.ip":
		return model.RemoteIP, true
	case "source.namespace":
		return model.SourceNamespace, true
	case "source.principal":
		return model.SourcePrincipal, true
	case "source.serviceAccount":
		return model.SourceServiceAccount, true
	case "source.trustDomain":
		return model.SourceTrustDomain, true
	case "request.auth.principal":
		return model.RequestPrincipal, true
	case "request.auth.audiences":
		return model.RequestAudiences, true
	case "request.auth.presenter":
		return model.RequestPresenter, true
	case "destination.ip":
		return model.DestinationIP, true
	case "destination.port":
		return model.DestinationPort, true
	case "connection.sni":
		return model.ConnectionSNI, true
	}
	return 0, false
}

const wantAttribute = "an attribute as source.ip, remote.ip, source.namespace, source.principal, destination.ip, " +
	"destination.port, connection.sni, request.headers[name], request.auth.claims[name], or " +
	"experimental.envoy.filters.name[key]"

// attribute reads a key of "when".
func (r authorizationRules) attribute(p path, key string) (out model.AuthorizationCondition, ok bool) {
	if of, known := attributeOf(key); known {
		return model.AuthorizationCondition{Attribute: of}, true
	}
	name, brackets, _ := strings.Cut(key, "[")
	names := bracketed("[" + brackets)
	switch {
	case name == "request.headers" && len(names) == 1:
		if !isToken(strings.TrimPrefix(names[0], ":")) {
			r.fail(p, key, "names no header; "+r.mistake(), "a header as request.headers[x-user]")
			return out, false
		}
		return r.header(p, key, strings.ToLower(names[0])), true
	case name == "request.auth.claims" && len(names) > 0:
		return model.AuthorizationCondition{Attribute: model.RequestClaim, Path: names}, true
	case strings.HasPrefix(name, "experimental.envoy.filters.") && len(names) == 1:
		filter := strings.TrimPrefix(name, "experimental.")
		return model.AuthorizationCondition{Attribute: model.FilterMetadata, Path: []string{filter, names[0]}}, true
	}
	r.fail(p, key, "is no attribute; "+r.mistake(), wantAttribute)
	return out, false
}

// header is the condition on a header. What HTTP/2 has as headers that begin with a colon, and
// HTTP/1.1 as Host, is compared as the host and the method of a request are.
func (r authorizationRules) header(p path, key, name string) model.AuthorizationCondition {
	switch name {
	case ":authority", "host":
		return model.AuthorizationCondition{Attribute: model.RequestHost}
	case ":method":
		return model.AuthorizationCondition{Attribute: model.RequestMethod}
	case ":path":
		r.warn(p, key, "is compared with the query, and not as a path", "paths of an operation")
	}
	return model.AuthorizationCondition{Attribute: model.RequestHeader, Path: []string{name}}
}

// bracketed returns the names of "[a][b]", and nil for any other text.
func bracketed(text string) []string {
	if !strings.HasPrefix(text, "[") || !strings.HasSuffix(text, "]") {
		return nil
	}
	names := strings.Split(text[1:len(text)-1], "][")
	for _, n := range names {
		if n == "" || hasControl(n) || strings.ContainsAny(n, "[]") {
			return nil
		}
	}
	return names
}
