package inject

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheProxyHasAUserOfItsOwn: interception excepts the connections of the proxy's user and of the
// group with its number. An application with either would bypass the proxy and all policies.
func TestTheProxyHasAUserOfItsOwn(t *testing.T) {
	const shared = "securityContext: {runAsUser: 1000650000, runAsNonRoot: true}"
	for name, c := range map[string]struct {
		pod  string
		user int64
		warn string
	}{
		"by default": {"spec: {containers: [{name: web, image: web}]}", 1337, ""},
		"OpenShift gives all containers one user": {
			"spec: {containers: [{name: istio-proxy, image: auto, " + shared + "}, {name: web, image: web, " +
				shared + "}]}",
			1337, "spec.containers[web].securityContext.runAsUser = 1000650000",
		},
		"the Pod has the user of its proxy": {
			"spec: {securityContext: {runAsUser: 2000}, containers: [{name: web, image: web}, " +
				"{name: istio-proxy, image: auto, securityContext: {runAsUser: 2000}}]}",
			1337, "spec.securityContext.runAsUser = 2000",
		},
		"an application as 1337": {
			"spec: {securityContext: {runAsUser: 1337}, containers: [{name: web, image: web}]}",
			1338, "spec.securityContext.runAsUser = 1337",
		},
		"a container as 1337": {
			"spec: {containers: [{name: a, image: a}, {name: web, image: web, securityContext: {runAsUser: 1337}}]}",
			1338, "spec.containers[web].securityContext.runAsUser = 1337",
		},
		"a group 1337": {
			"spec: {containers: [{name: web, image: web, securityContext: {runAsGroup: 1337}}]}",
			1338, "spec.containers[web].securityContext.runAsGroup = 1337",
		},
		"1338 is taken too": {
			"spec: {securityContext: {runAsUser: 1337, runAsGroup: 1338}, containers: [{name: web, image: web}]}",
			1339, "spec.securityContext.runAsUser = 1337",
		},
		"a sidecar of the application as 1337": {
			"spec: {containers: [{name: web, image: web}], initContainers: [{name: log, image: log, " +
				"restartPolicy: Always, securityContext: {runAsUser: 1337}}]}",
			1338, "spec.initContainers[log].securityContext.runAsUser = 1337",
		},
		"an init container as 1337, which Istio advises": {
			"spec: {containers: [{name: web, image: web}], initContainers: [{name: wait, image: wait, " +
				"securityContext: {runAsUser: 1337}}]}", 1337, "",
		},
		"another user of the proxy": {
			"spec: {securityContext: {runAsUser: 1337}, containers: [{name: web, image: web}, " +
				"{name: istio-proxy, image: auto, securityContext: {runAsUser: 2000}}]}", 2000, "",
		},
	} {
		for _, native := range []bool{false, true} {
			t.Run(name+", native "+strconv.FormatBool(native), func(t *testing.T) {
				got := injectYAML(t, Options{NativeSidecars: native}, Texts{}, c.pod)
				proxy := proxyIn(&got.Pod)
				require.Equal(t, c.user, *proxy.SecurityContext.RunAsUser)
				require.Equal(t, c.user, exceptedUser(t, got))
				if c.warn == "" {
					require.Empty(t, got.warning)
				} else {
					require.Contains(t, got.warning, c.warn)
					require.Equal(t, c.user, *proxy.SecurityContext.RunAsGroup)
				}
			})
		}
	}
}

// exceptedUser is the user whose connections are not redirected.
func exceptedUser(t *testing.T, pod injected) int64 {
	t.Helper()
	for _, c := range pod.Spec.InitContainers {
		if at := slices.Index(c.Args, "-u"); c.Name == initName && at >= 0 {
			user, err := strconv.ParseInt(c.Args[at+1], 10, 64)
			require.NoError(t, err)
			return user
		}
	}
	require.Fail(t, "nothing is intercepted")
	return 0
}

// TestWithoutInterceptionUsersMayBeShared: nothing is redirected, so nothing is excepted.
func TestWithoutInterceptionUsersMayBeShared(t *testing.T) {
	got := injectYAML(t, Options{}, Texts{}, `
metadata: {annotations: {sidecar.istio.io/interceptionMode: NONE}}
spec: {securityContext: {runAsUser: 1337}, containers: [{name: web, image: web}]}`)
	require.Equal(t, int64(1337), *proxyIn(&got.Pod).SecurityContext.RunAsUser)
	require.Empty(t, got.warning)
}

// TestTemplatesWithTheirOwnUserAreSeparatedToo: older templates of Istio have 1337 in their text.
func TestTemplatesWithTheirOwnUserAreSeparatedToo(t *testing.T) {
	got := injectYAML(t, Options{}, Texts{Config: `
templates:
  sidecar: |
    spec:
      initContainers: [{name: istio-init, image: proxy, args: [istio-iptables, "-u", "1337"]}]
      containers: [{name: istio-proxy, image: proxy, securityContext: {runAsUser: 1337, runAsGroup: 1337}}]`},
		"spec: {securityContext: {runAsUser: 1337}, containers: [{name: web, image: web}]}")
	require.Equal(t, int64(1338), *proxyIn(&got.Pod).SecurityContext.RunAsUser)
	require.Equal(t, int64(1338), exceptedUser(t, got))
}

// TestTheValidationIsDoneAsTheProxysUser: a CNI plugin excepts the connections of the user that the
// proxy's container has, and validation calls as that user.
func TestTheValidationIsDoneAsTheProxysUser(t *testing.T) {
	const pod = "spec: {securityContext: {runAsUser: 1337}, containers: [{name: web, image: web}], " +
		"initContainers: [{name: migrate, image: migrate}]}"
	for name, config := range map[string]string{"built-in": "", "a template with its own user": `
templates:
  sidecar: |
    spec:
      initContainers:
      - {name: istio-validation, image: proxy, args: [istio-iptables, "-u", "1337"], securityContext: {runAsUser: 1337}}
      containers: [{name: istio-proxy, image: proxy, securityContext: {runAsUser: 1337, runAsGroup: 1337}}]`} {
		t.Run(name, func(t *testing.T) {
			got := injectYAML(t, Options{}, Texts{Config: config, Values: "pilot: {cni: {enabled: true}}"}, pod)
			validation := got.Spec.InitContainers[0]
			require.Equal(t, validationName, validation.Name, "before all others")
			require.Equal(t, int64(1338), *proxyIn(&got.Pod).SecurityContext.RunAsUser)
			require.Equal(t, int64(1338), *validation.SecurityContext.RunAsUser)
			require.Equal(t, int64(1338), *validation.SecurityContext.RunAsGroup)
			require.Equal(t, "1338", validation.Args[slices.Index(validation.Args, "-u")+1])
		})
	}
}

// TestARootProxyIsToldByItsGroup: for low ports the proxy is root, and interception tells it by the
// group with the number of the user.
func TestARootProxyIsToldByItsGroup(t *testing.T) {
	got := injectYAML(t, Options{}, Texts{}, `
metadata: {annotations: {sidecar.istio.io/capNetBindService: "true"}}
spec: {securityContext: {runAsUser: 1337}, containers: [{name: web, image: web}]}`)
	s := proxyIn(&got.Pod).SecurityContext
	require.Equal(t, int64(0), *s.RunAsUser)
	require.Equal(t, exceptedUser(t, got), *s.RunAsGroup)
}
