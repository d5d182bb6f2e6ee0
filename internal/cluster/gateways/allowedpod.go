package gateways

import (
	"slices"
	"strings"
)

// What parameters may set of Pods is what the level "baseline" of the Pod Security Standards lets
// through, and less: no other account, no user 0, no drivers of volumes, no priority of the system.
// Who may write Gateways and ConfigMaps in a namespace runs containers there by them, as the
// Gateway's own service account, and gets no rights on the node.

// podSpec is the rule of spec.template.spec.
func podSpec(account string) *rule {
	return below().
		free("affinity", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks",
			"hostAliases", "hostname", "imagePullSecrets", "nodeSelector", "os", "preemptionPolicy",
			"readinessGates", "resources", "runtimeClassName", "schedulerName", "setHostnameAsFQDN",
			"shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "tolerations",
			"topologySpreadConstraints").
		with(container(), "containers", "initContainers").
		with(volumes(), "volumes").
		with(podSecurity(), "securityContext").
		with(always(false), "hostNetwork", "hostPID", "hostIPC", "hostUsers").
		with(oneOf(account), "serviceAccountName", "serviceAccount").
		with(oneOf("Always"), "restartPolicy").
		with(only("a class that does not begin with system-", func(value any) bool {
			text, ok := value.(string)
			return ok && !strings.HasPrefix(text, "system-")
		}), "priorityClassName")
}

// volumes have sources that reach nothing of the node, and no driver that an administrator has
// installed for others.
func volumes() *rule {
	return below().free("name", "configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
		"projected", "secret")
}

func container() *rule {
	handler := func() *rule {
		host := oneOf("", "localhost", "127.0.0.1", "::1")
		return below().free("exec", "grpc", "sleep").
			with(below().free("path", "port", "scheme", "httpHeaders").with(host, "host"), "httpGet").
			with(below().free("port").with(host, "host"), "tcpSocket")
	}
	probe := handler().free("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
		"failureThreshold", "terminationGracePeriodSeconds")
	return below().
		free("args", "command", "env", "envFrom", "image", "imagePullPolicy", "name", "resizePolicy", "resources",
			"restartPolicy", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
			"workingDir").
		with(probe, "livenessProbe", "readinessProbe", "startupProbe").
		with(below().free("stopSignal").with(handler(), "postStart", "preStop"), "lifecycle").
		with(below().free("name", "containerPort", "protocol").
			with(only("0, or no such field", func(value any) bool { return value == 0.0 }), "hostPort"), "ports").
		with(below().free("name", "mountPath", "readOnly", "recursiveReadOnly", "subPath", "subPathExpr").
			with(oneOf("None", "HostToContainer"), "mountPropagation"), "volumeMounts").
		with(containerSecurity(), "securityContext")
}

func podSecurity() *rule {
	return security().
		free("fsGroup", "fsGroupChangePolicy", "supplementalGroups", "supplementalGroupsPolicy").
		with(below().free("value").with(oneOf(safeSysctls()...), "name"), "sysctls")
}

func containerSecurity() *rule {
	return security().
		free("readOnlyRootFilesystem").
		with(always(false), "allowPrivilegeEscalation", "privileged").
		with(oneOf("Default"), "procMount").
		with(below().free("drop").with(only("NET_BIND_SERVICE alone", isBindService), "add"), "capabilities")
}

// security has the fields that Pods and containers share.
func security() *rule {
	profile := func() *rule {
		return below().free("localhostProfile").with(oneOf("RuntimeDefault", "Localhost"), "type")
	}
	return below().
		free("runAsGroup").
		with(always(true), "runAsNonRoot").
		with(only("a user other than 0", func(value any) bool {
			user, ok := value.(float64)
			return ok && user > 0
		}), "runAsUser").
		with(profile(), "seccompProfile", "appArmorProfile").
		with(below().free("level").with(oneOf("container_t", "container_init_t", "container_kvm_t",
			"container_engine_t"), "type"), "seLinuxOptions")
}

func isBindService(value any) bool {
	all, ok := value.([]any)
	return ok && !slices.ContainsFunc(all, func(one any) bool { return one != "NET_BIND_SERVICE" })
}

// safeSysctls are those that a container has for itself, as Kubernetes lists them.
func safeSysctls() []string {
	return []string{
		"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
	}
}

// templateLabels may not ask for injection: the proxy is there, and what the webhook would add by
// the Pod's annotations, nobody has looked at.
func templateLabels() *rule {
	return &rule{keys: func(key string, value any) string {
		if key == injectLabel {
			return "no such label: the proxy is there"
		}
		return managedLabels(key, value)
	}}
}

// managedLabels may not change whose an object is.
func managedLabels(key string, _ any) string {
	if slices.Contains(ownLabels(), key) {
		return "no such label: Lateen sets it"
	}
	return ""
}

// templateAnnotations may not steer the injection, nor take away a profile.
func templateAnnotations() *rule {
	return &rule{keys: func(key string, value any) string {
		text, _ := value.(string)
		domain, _, _ := strings.Cut(key, "/")
		switch {
		case steersInjection(key):
			return "no annotation of istio.io: the proxy is there; " +
				"set it in the Gateway's spec.infrastructure.annotations, where it is in force"
		case domain != "container.apparmor.security.beta.kubernetes.io" &&
			!strings.HasSuffix(domain, "seccomp.security.alpha.kubernetes.io"):
			return ""
		case text != "runtime/default" && !strings.HasPrefix(text, "localhost/"):
			return "runtime/default, or localhost/ with a profile"
		}
		return ""
	}}
}
