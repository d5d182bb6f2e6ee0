package kubeapi

import (
	"fmt"
	"net"
	"strings"
)

// controllers are those whose work a mesh sees; the many others cost a start of many more seconds.
var controllers = strings.Join([]string{
	"daemonset-controller",
	"deployment-controller",
	"endpointslice-controller",
	"endpointslice-mirroring-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
	"taint-eviction-controller",
}, ",")

// apiServerArgs leave etcd's history alone (--etcd-compaction-interval), so that only a test
// compacts it. The Service "kubernetes" gets no endpoints, because an endpoint may not have a
// loopback address.
func (s *Server) apiServerArgs() []string {
	_, port, _ := net.SplitHostPort(s.port.Address)
	args := []string{
		"apiserver",
		"--etcd-servers=unix://" + s.path("etcd.sock"),
		"--etcd-compaction-interval=0",
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + s.path("server.crt"),
		"--tls-private-key-file=" + s.path("server.key"),
		"--client-ca-file=" + s.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + s.path("tokens.key"),
		"--service-account-signing-key-file=" + s.path("tokens.key"),
		"--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--enable-priority-and-fairness=false",
		"--profiling=false",
		fmt.Sprintf("--watch-cache=%t", !s.options.NoWatchCache),
	}
	if s.options.NoControllerManager {
		// Pods would wait for a service account that nobody makes.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, s.options.APIServerFlags...)
}

// managerArgs let nodes be silent for a day: most tests have nodes without a kubelet.
func (s *Server) managerArgs() []string {
	return append([]string{
		"controller-manager",
		"--kubeconfig=" + s.Kubeconfig(),
		"--controllers=" + controllers,
		"--secure-port=0",
		"--leader-elect=false",
		"--node-monitor-grace-period=24h",
		"--allocate-node-cidrs=false",
		"--root-ca-file=" + s.path("ca.crt"),
		"--service-account-private-key-file=" + s.path("tokens.key"),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}, s.options.ControllerManagerFlags...)
}
