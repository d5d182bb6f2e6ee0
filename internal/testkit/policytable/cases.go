package policytable

// requestCase is a rule, and requests that it matches or does not. In the rule, $i is a segment of
// its own at the beginning of the path, so that all rules may stand in one mesh; without "to" the
// rule is for that segment. $net is where the addresses of all workloads are, $unmasked the same
// with bits behind the prefix, and $other the ports of the cases on connections. A call is "+" or
// "-" for whether the rule matches, the caller, and what differs from GET $i/x: a method, a path,
// headers, "host=", "h2" for HTTP/2. "~" is a call that a DENY matches and an ALLOW does not, so
// both servers refuse it. "!" is a request that Envoy answers with 400 before it asks any policy.
type requestCase struct {
	why, rule string
	calls     []string
}

// placedCase is a case whose policies are in a namespace.
type placedCase struct {
	requestCase
	namespace string
}

// requests are all cases of requests. The last rule matches every call to its path: Run waits for
// its policies.
func requests() (all []placedCase) {
	for _, c := range requestCases() {
		all = append(all, placedCase{c, namespace})
	}
	return append(all, placedCase{requestCase{
		"a policy of the root namespace is for the workloads of the mesh that it selects", "",
		[]string{"+client", "+far", "+plain"},
	}, "istio-system"}, placedCase{requestCase{
		"a service account without a namespace is one of the policy's own, not of the workload's",
		"from: [{source: {serviceAccounts: [default]}}]", []string{"-client", "-far", "-plain"},
	}, "istio-system"}, placedCase{requestCase{
		"a policy of another namespace is for none of this one's workloads", "",
		[]string{"-client", "-far", "-plain"},
	}, "other"}, placedCase{requestCase{
		"a rule without conditions matches every call to its path", "",
		[]string{"+client", "+far", "+plain", "+plain POST"},
	}, namespace})
}

// requestCases are written from Istio's documentation of AuthorizationPolicy.
func requestCases() []requestCase {
	return []requestCase{
		// who calls
		{
			"a principal is the whole identity",
			"from: [{source: {principals: [cluster.local/ns/default/sa/default]}}]",
			[]string{"+client", "-far", "-plain"},
		},
		{
			"principals may end in a wildcard", `from: [{source: {principals: ["cluster.local/ns/other/*"]}}]`,
			[]string{"-client", "+far", "-plain"},
		},
		{
			"principals may begin with a wildcard", `from: [{source: {principals: ["*/sa/default"]}}]`,
			[]string{"+client", "+far", "-plain"},
		},
		{
			"* is any caller with a certificate", `from: [{source: {principals: ["*"]}}]`,
			[]string{"+client", "+far", "-plain"},
		},
		{
			"a caller without certificate has no principal, so it is not one of those",
			`from: [{source: {notPrincipals: ["*"]}}]`, []string{"-client", "-far", "+plain"},
		},
		{
			"notPrincipals", "from: [{source: {notPrincipals: [cluster.local/ns/default/sa/default]}}]",
			[]string{"-client", "+far", "+plain"},
		},
		{
			"a part of a principal is none", "from: [{source: {principals: [cluster.local/ns/default]}}]",
			[]string{"-client", "-far", "-plain"},
		},
		{
			"a value that begins with a wildcard ends in no other one",
			`from: [{source: {principals: ["*/ns/other/*"]}}]`,
			[]string{"-client", "-far", "-plain"},
		},
		{
			"principals are compared with regard to case",
			"from: [{source: {principals: [cluster.local/ns/Default/sa/default]}}]",
			[]string{"-client", "-plain"},
		},
		{
			"namespaces", "from: [{source: {namespaces: [default]}}]", []string{"+client", "-far", "-plain"},
		},
		{
			"a wildcard in a namespace", `from: [{source: {namespaces: ["oth*", "x-*"]}}]`,
			[]string{"-client", "+far", "-plain"},
		},
		{
			"notNamespaces", "from: [{source: {notNamespaces: [default]}}]", []string{"-client", "+far", "+plain"},
		},
		{
			"a namespace is no part of another one's name", "from: [{source: {namespaces: [defaul, efault]}}]",
			[]string{"-client", "-far", "-plain"},
		},
		{
			"a service account of the policy's namespace", "from: [{source: {serviceAccounts: [default]}}]",
			[]string{"+client", "-far", "-plain"},
		},
		{
			"a dot in a service account is a dot",
			"from: [{source: {serviceAccounts: [default/d.fault, other/d.fault]}}]",
			[]string{"-client", "-far", "-plain"},
		},
		{
			"a service account of another namespace", "from: [{source: {serviceAccounts: [other/default]}}]",
			[]string{"-client", "+far", "-plain"},
		},
		{
			"notServiceAccounts", "from: [{source: {notServiceAccounts: [other/default]}}]",
			[]string{"+client", "-far", "+plain"},
		},
		{
			"trust domains", `from: [{source: {trustDomains: ["cluster.*"]}}]`, []string{"+client", "+far", "-plain"},
		},
		{
			"another trust domain", "from: [{source: {trustDomains: [other.test]}}]", []string{"-client", "-far"},
		},
		{
			"notTrustDomains", "from: [{source: {notTrustDomains: [cluster.local]}}]", []string{"-client", "+plain"},
		},
		{
			"a trust domain's alias stands for it", "from: [{source: {principals: [old.test/ns/default/sa/default]}}]",
			[]string{"+client", "-far", "-plain"},
		},
		{
			"an alias as a trust domain", "from: [{source: {trustDomains: [old.test]}}]",
			[]string{"+client", "+far", "-plain"},
		},
		{
			"ipBlocks is where the connection comes from", "from: [{source: {ipBlocks: [$net]}}]",
			[]string{"+client", "+plain", "+plain x-forwarded-for=192.0.2.3"},
		},
		{
			"another address", "from: [{source: {ipBlocks: [192.0.2.0/24, 2001:db8::1]}}]",
			[]string{"-client", "-plain"},
		},
		{
			"notIpBlocks", "from: [{source: {notIpBlocks: [$net]}}]", []string{"-client", "-plain"},
		},
		{
			"remoteIpBlocks is what trusted proxies say", "from: [{source: {remoteIpBlocks: [192.0.2.0/24]}}]",
			[]string{"-plain", "+plain x-forwarded-for=192.0.2.3", "-plain x-forwarded-for=198.51.100.1"},
		},
		{
			"notRemoteIpBlocks", "from: [{source: {notRemoteIpBlocks: [192.0.2.0/24]}}]",
			[]string{"+plain", "-plain x-forwarded-for=192.0.2.3"},
		},
		{
			"all fields of a source have to match",
			`from: [{source: {namespaces: [default, other], notPrincipals: ["*/ns/other/sa/default"]}}]`,
			[]string{"+client", "-far", "-plain"},
		},
		{
			"one of several sources has to match",
			"from: [{source: {namespaces: [nobody]}}, {source: {namespaces: [other]}}]",
			[]string{"-client", "+far"},
		},
		// what is called
		{
			"methods", `to: [{operation: {paths: ["/$i/*"], methods: [GET, HEAD]}}]`,
			[]string{"+plain", "+client", "-plain POST", "-client PUT"},
		},
		{
			"methods are compared without regard to case",
			`to: [{operation: {paths: ["/$i/*"], methods: [get, Delete]}}]`,
			[]string{"+plain", "+plain h2 get", "+plain h2 GET", "+plain h2 delete", "-plain h2 post", "+client"},
		},
		{
			"a method may be sent in any case", `to: [{operation: {paths: ["/$i/*"], methods: [DELETE]}}]`,
			[]string{"+plain DELETE", "+plain h2 delete", "+plain h2 dElEtE", "-plain h2 get"},
		},
		{
			"notMethods in any case", `to: [{operation: {paths: ["/$i/*"], notMethods: [DELETE]}}]`,
			[]string{"-plain h2 delete", "-plain h2 DELETE", "+plain h2 get"},
		},
		{
			"a wildcard in a method", `to: [{operation: {paths: ["/$i/*"], methods: ["P*"]}}]`,
			[]string{"-plain", "+plain POST", "+plain PUT"},
		},
		{
			"notMethods",
			`to: [{operation: {paths: ["/$i/*"], notMethods: [GET]}}]`, []string{"-plain", "+plain DELETE"},
		},
		{
			"a path is the whole path, without the query", "to: [{operation: {paths: [/$i/a]}}]",
			[]string{"+plain /a", "+plain /a?b=c", "-plain /a/b", "-plain /ab", "-plain /A"},
		},
		{
			"a fragment is no part of a request", "to: [{operation: {paths: [/$i/a]}}]",
			[]string{"!plain /a#b", "!plain h2 /a#b", "!plain /a#", "!plain /b#/a"},
		},
		{
			"parameters are a part of the path, as Istio has it", "to: [{operation: {paths: [/$i/a]}}]",
			[]string{"-plain /a;b=c", "-plain h2 /a;b=c", "+plain /a?b;c"},
		},
		{
			"a path may end in a wildcard", `to: [{operation: {paths: ["/$i/a*"]}}]`,
			[]string{"+plain /a", "+plain /ab/c", "-plain /b"},
		},
		{
			"a path may begin with a wildcard", `to: [{operation: {paths: ["*/$i/secret"]}}]`,
			[]string{"+plain /secret", "-plain /secret/x"},
		},
		{
			"notPaths", `to: [{operation: {paths: ["/$i/*"], notPaths: [/$i/a, "/$i/b/*"]}}]`,
			[]string{"+plain /c", "-plain /a", "-plain /b/c", "+plain /b"},
		},
		{
			"{*} is one segment", `to: [{operation: {paths: ["/$i/{*}/x"]}}]`,
			[]string{"+plain /a/x", "-plain /a/b/x", "-plain /x", "-plain /a/y"},
		},
		{
			"{**} is any number of segments", `to: [{operation: {paths: ["/$i/{**}"]}}]`,
			[]string{"+plain /a", "+plain /a/b/c"},
		},
		{
			"text may follow {**}", `to: [{operation: {paths: ["/$i/a/{**}/z"]}}]`,
			[]string{"+plain /a/b/z", "+plain /a/b/c/z", "-plain /a/b/c", "-plain /b/z"},
		},
		{
			"templates are without the query", `to: [{operation: {paths: ["/$i/{*}/x/{*}"]}}]`,
			[]string{"+plain /a/x/b?q=/x/y", "-plain /a/x"},
		},
		{
			"a template among notPaths", `to: [{operation: {paths: ["/$i/*"], notPaths: ["/$i/{*}/x"]}}]`,
			[]string{"-plain /a/x", "+plain /a/b/x"},
		},
		{
			"paths are normalized before", "to: [{operation: {paths: [/$i/a]}}]",
			[]string{"+plain /b/../a", "+plain /./a", "-plain //a", "-plain /b/..%2fa"},
		},
		{
			"hosts are compared without regard to case", `to: [{operation: {paths: ["/$i/*"], hosts: [a.test]}}]`,
			[]string{
				"+plain host=a.test", "+plain host=A.Test", "-plain host=b.test", "+plain h2 host=A.test",
				"-plain host=a.test.test", "-plain host=b.a.test",
			},
		},
		{
			"a host is refused however it is spelled, and let in as it is written",
			`to: [{operation: {paths: ["/$i/*"], hosts: [x.example, "*.x.test"]}}]`,
			[]string{
				"+plain host=x.example", "~plain host=x.example:1", "~plain host=X.Example.",
				"~plain host=x.example.:80",
				"~plain h2 host=x.example:1", "~plain h2 host=X.example.", "~plain h2 host=x.example.:80",
				"+plain host=a.x.test", "~plain host=a.x.test:1", "~plain host=a.x.test.",
				"~plain h2 host=a.X.test.:1",
				"-plain host=x.example.test", "-plain host=x.test",
			},
		},
		{
			"notHosts of an ALLOW take out each spelling, and those of a DENY the one that is written",
			`to: [{operation: {paths: ["/$i/*"], notHosts: [x.example]}}]`,
			[]string{
				"-plain host=x.example", "~plain host=x.example:1", "~plain host=x.example.",
				"~plain h2 host=X.example.:1",
				"+plain host=y.example",
			},
		},
		{
			"the host as a header is the host",
			`when: [{key: "request.headers[:authority]", values: [x.example]}]`,
			[]string{
				"+plain host=X.example", "~plain host=x.example:1", "~plain h2 host=x.example.",
				"-plain host=y.example",
			},
		},
		{
			"the method as a header is the method",
			`when: [{key: "request.headers[:method]", values: [DELETE]}]`,
			[]string{"+plain DELETE", "+plain h2 delete", "-plain"},
		},
		{
			"hosts with any port", `to: [{operation: {paths: ["/$i/*"], hosts: ["a.test:*"]}}]`,
			[]string{"-plain host=a.test", "+plain host=a.test:8080"},
		},
		{
			"a wildcard before a host", `to: [{operation: {paths: ["/$i/*"], hosts: ["*.test"]}}]`,
			[]string{"+plain host=a.test", "-plain host=a.example"},
		},
		{
			"notHosts", `to: [{operation: {paths: ["/$i/*"], notHosts: [a.test]}}]`,
			[]string{"-plain host=a.test", "+plain host=b.test"},
		},
		{
			"ports are those that the workload listens on", `to: [{operation: {paths: ["/$i/*"], ports: ["8080"]}}]`,
			[]string{"+client", "+plain"},
		},
		{
			"a port of the Service is none", `to: [{operation: {paths: ["/$i/*"], ports: ["80"]}}]`,
			[]string{"-client", "-plain"},
		},
		{
			"notPorts",
			`to: [{operation: {paths: ["/$i/*"], notPorts: ["8080", $other]}}]`, []string{"-client", "-plain"},
		},
		{
			"one of several operations has to match",
			`to: [{operation: {paths: ["/$i/a"], methods: [GET]}}, {operation: {paths: ["/$i/b"], methods: [POST]}}]`,
			[]string{"+plain /a", "-plain POST /a", "+plain POST /b", "-plain /b"},
		},
		// when
		{"source.ip", "when: [{key: source.ip, values: [$unmasked]}]", []string{"+client", "+plain"}},
		{"source.ip, not", "when: [{key: source.ip, notValues: [$unmasked]}]", []string{"-client", "-plain"}},
		{
			"remote.ip", "when: [{key: remote.ip, values: [192.0.2.3]}]",
			[]string{"-plain", "+plain x-forwarded-for=192.0.2.3", "-plain x-forwarded-for=192.0.2.4"},
		},
		{"source.namespace", "when: [{key: source.namespace, values: [other]}]", []string{"-client", "+far", "-plain"}},
		{
			"source.namespace, not", "when: [{key: source.namespace, notValues: [other]}]",
			[]string{"+client", "-far", "+plain"},
		},
		{
			"source.principal", "when: [{key: source.principal, values: [cluster.local/ns/other/sa/default]}]",
			[]string{"-client", "+far", "-plain"},
		},
		{
			"source.principal, not", `when: [{key: source.principal, notValues: ["*"]}]`, []string{"-client", "+plain"},
		},
		{
			"source.serviceAccount", "when: [{key: source.serviceAccount, values: [other/default]}]",
			[]string{"-client", "+far"},
		},
		{
			"source.serviceAccount, not", "when: [{key: source.serviceAccount, notValues: [other/default]}]",
			[]string{"+client", "-far", "+plain"},
		},
		{
			"source.trustDomain", "when: [{key: source.trustDomain, values: [cluster.local]}]",
			[]string{"+client", "-plain"},
		},
		{
			"source.trustDomain, not", "when: [{key: source.trustDomain, notValues: [cluster.local]}]",
			[]string{"-client", "+plain"},
		},
		{
			"remote.ip, not", "when: [{key: remote.ip, notValues: [192.0.2.3]}]",
			[]string{"+plain", "-plain x-forwarded-for=192.0.2.3"},
		},
		{
			"request.auth.principal: without a token there is none",
			`when: [{key: request.auth.principal, values: ["*"]}]`, []string{"-client", "-plain"},
		},
		{
			"request.auth.principal, not", `when: [{key: request.auth.principal, notValues: ["*"]}]`,
			[]string{"+client", "+plain"},
		},
		{
			"requestPrincipals: without a token there is none",
			`from: [{source: {requestPrincipals: ["*"]}}]`, []string{"-client", "-plain"},
		},
		{
			"notRequestPrincipals", `from: [{source: {notRequestPrincipals: ["*"]}}]`, []string{"+client", "+plain"},
		},
		{
			"a claim that is missing is none of those",
			`when: [{key: "request.auth.claims[group]", notValues: [a]}]`, []string{"+plain"},
		},
		{"destination.ip, not", "when: [{key: destination.ip, notValues: [$net]}]", []string{"-client", "-plain"}},
		{"destination.ip", "when: [{key: destination.ip, values: [$net]}]", []string{"+client", "+plain"}},
		{
			"destination.ip, other", "when: [{key: destination.ip, values: [192.0.2.0/24]}]",
			[]string{"-client", "-plain"},
		},
		{"destination.port", `when: [{key: destination.port, values: ["8080"]}]`, []string{"+client", "+plain"}},
		{"destination.port, not",
			`when: [{key: destination.port, notValues: ["8080"]}]`, []string{"-client", "-plain"}},
		{
			"connection.sni is that of mutual TLS", `when: [{key: connection.sni, values: ["outbound_*"]}]`,
			[]string{"+client", "+far", "-plain"},
		},
		{
			"connection.sni, not",
			`when: [{key: connection.sni, notValues: ["outbound_*"]}]`, []string{"-client", "+plain"},
		},
		{
			"a header", `when: [{key: "request.headers[X-User]", values: [me]}]`,
			[]string{"+plain x-user=me", "-plain x-user=Me", "-plain x-user=you", "-plain", "+client x-user=me"},
		},
		{
			"wildcards in a header", `when: [{key: "request.headers[x-user]", values: ["a*", "*z"]}]`,
			[]string{"+plain x-user=ab", "+plain x-user=yz", "-plain x-user=ba", "-plain"},
		},
		{
			"any value of a header", `when: [{key: "request.headers[x-user]", values: ["*"]}]`,
			[]string{"+plain x-user=me", "-plain"},
		},
		{
			"no value of a header", `when: [{key: "request.headers[x-user]", notValues: ["*"]}]`,
			[]string{"-plain x-user=me", "+plain"},
		},
		{
			"a header that is missing is none of those", `when: [{key: "request.headers[x-user]", notValues: [me]}]`,
			[]string{"-plain x-user=me", "+plain x-user=you", "+plain"},
		},
		{
			"some values and not others", `when: [{key: "request.headers[x-user]", values: ["m*"], notValues: [me]}]`,
			[]string{"-plain x-user=me", "+plain x-user=my", "-plain x-user=you"},
		},
		{
			"all conditions have to match",
			`when: [{key: "request.headers[a]", values: [x]}, {key: "request.headers[b]", values: [z]}]`,
			[]string{"+plain a=x b=z", "-plain a=x", "-plain b=z"},
		},
		{
			"metadata that no filter left", `when: [{key: "experimental.envoy.filters.http.none[k]", values: ["*"]}]`,
			[]string{"-plain"},
		},
		{
			"sources, operations and conditions have to match together",
			`from: [{source: {namespaces: [other]}}], to: [{operation: {paths: ["/$i/*"], methods: [GET]}}], ` +
				`when: [{key: "request.headers[a]", values: [x]}]`,
			[]string{"+far a=x", "-far", "-far POST a=x", "-client a=x"},
		},
	}
}

// connectionCase is a rule on a port, which is $p in it, and who may call there: where an ALLOW has
// the rule, and where a DENY has it. On connections that are not HTTP, a condition on requests
// makes an ALLOW match nothing, and a DENY goes without it.
type connectionCase struct {
	why, rule      string
	allows, denies string // callers that the rule matches
}

func connectionCases() []connectionCase {
	port := `to: [{operation: {ports: ["$p"]}}]`
	return []connectionCase{
		{"every connection to a port", port, "client far plain", "client far plain"},
		{"namespaces", "from: [{source: {namespaces: [default]}}], " + port, "client", "client"},
		{"notNamespaces", "from: [{source: {notNamespaces: [default]}}], " + port, "far plain", "far plain"},
		{"principals", `from: [{source: {principals: ["*/ns/other/sa/default"]}}], ` + port, "far", "far"},
		{"addresses", "from: [{source: {ipBlocks: [$net]}}], " + port, "client far plain", "client far plain"},
		{"other addresses", "from: [{source: {ipBlocks: [192.0.2.0/24]}}], " + port, "", ""},
		{"methods", `to: [{operation: {ports: ["$p"], methods: [GET]}}]`, "", "client far plain"},
		{"notPaths", `to: [{operation: {ports: ["$p"], notPaths: [/a]}}]`, "", "client far plain"},
		{
			"a header and a namespace",
			`from: [{source: {namespaces: [other]}}], ` + port + `, when: [{key: "request.headers[a]", values: [b]}]`,
			"", "far",
		},
		{
			"an operation that is for requests beside one that is not",
			`to: [{operation: {ports: ["$p"]}}, {operation: {ports: ["$p"], hosts: [a]}}]`, "", "client far plain",
		},
	}
}
