package app

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// replicas is how many Pods belong to one ReplicaSet or StatefulSet of the estate below.
const replicas = 5

// podOf is a Pod of a Deployment, as an API server shows it: three containers and one that prepares
// the network, with environment, volumes, probes and managed fields.
func podOf(i int) *corev1.Pod {
	set := i / replicas
	app := fmt.Sprintf("checkout-%d", set)
	hash := fmt.Sprintf("%08x", uint32(set)*2654435761)
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              fmt.Sprintf("%s-v1-%s-%05x", app, hash, i),
			GenerateName:      app + "-v1-" + hash + "-",
			Namespace:         fmt.Sprintf("team-%d", set%40),
			UID:               types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012x", i)),
			ResourceVersion:   "7",
			CreationTimestamp: metav1.Unix(1700000000, 0),
			Labels: map[string]string{
				"app":                                 app,
				"version":                             "v1",
				"pod-template-hash":                   hash,
				"app.kubernetes.io/name":              app,
				"app.kubernetes.io/part-of":           "shop",
				"app.kubernetes.io/managed-by":        "Helm",
				"service.istio.io/canonical-name":     app,
				"service.istio.io/canonical-revision": "v1",
				"security.istio.io/tlsMode":           "istio",
			},
			Annotations: map[string]string{
				"sidecar.istio.io/status":                 strings.Repeat("{}", 300),
				"kubectl.kubernetes.io/default-container": app,
				"prometheus.io/port":                      "15020",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1",
				Kind:       "ReplicaSet",
				Name:       app + "-v1-" + hash,
			}},
			ManagedFields: managed("kube-controller-manager", "kubelet"),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: app, NodeName: fmt.Sprintf("ip-10-0-%d-17.eu-central-1.compute.internal", i%200),
			InitContainers: []corev1.Container{containerOf("istio-init", corev1.ContainerPort{})},
			Containers: []corev1.Container{
				containerOf(app,
					corev1.ContainerPort{Name: "http", ContainerPort: 8080},
					corev1.ContainerPort{Name: "grpc", ContainerPort: 9090}),
				containerOf("metrics-exporter", corev1.ContainerPort{Name: "metrics", ContainerPort: 9102}),
				containerOf("istio-proxy", corev1.ContainerPort{Name: "http-envoy-prom", ContainerPort: 15090}),
			},
			Volumes: []corev1.Volume{
				volumeOf("config"), volumeOf("workload-certs"), volumeOf("istio-envoy"),
				volumeOf("istiod-ca-cert"),
			},
			Tolerations: []corev1.Toleration{{
				Key:      "node.kubernetes.io/not-ready",
				Operator: corev1.TolerationOpExists,
				Effect:   corev1.TaintEffectNoExecute,
			}},
		},
		Status: statusOf(i),
	}
}

// memberOf is the same of a StatefulSet: such Pods have a label or two of their own each, so that
// no two have equal ones.
func memberOf(i int) *corev1.Pod {
	p := podOf(i)
	p.Name = fmt.Sprintf("checkout-%d-%d", i/replicas, i%replicas)
	delete(p.Labels, "pod-template-hash")
	p.Labels["statefulset.kubernetes.io/pod-name"] = p.Name
	p.Labels["apps.kubernetes.io/pod-index"] = fmt.Sprint(i % replicas)
	return p
}

func containerOf(name string, ports ...corev1.ContainerPort) corev1.Container {
	env := make([]corev1.EnvVar, 20)
	for n := range env {
		env[n] = corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: strings.Repeat("x", 40)}
	}
	return corev1.Container{
		Name:  name,
		Image: "registry.example.com/shop/" + name + ":1.2.3",
		Args:  []string{"serve", "--log-level", "info"},
		Env:   env,
		Ports: ports,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/shop"},
			{Name: "workload-certs", MountPath: "/var/run/secrets/workload"},
		},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/ready",
			Port: intstr.FromInt32(8080),
		}}},
	}
}

func volumeOf(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
	}}}
}

func managed(by ...string) []metav1.ManagedFieldsEntry {
	var all []metav1.ManagedFieldsEntry
	for _, name := range by {
		all = append(all, metav1.ManagedFieldsEntry{
			Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(
				`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},` +
					`"f:spec":{"f:containers":{}},"f:status":{"f:conditions":{}}}`,
			),
		})
	}
	return all
}

func statusOf(i int) corev1.PodStatus {
	address := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	s := corev1.PodStatus{
		Phase:    corev1.PodRunning,
		PodIP:    address,
		PodIPs:   []corev1.PodIP{{IP: address}},
		HostIP:   "10.0.0.1",
		QOSClass: corev1.PodQOSBurstable,
	}
	for _, c := range []corev1.PodConditionType{
		corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodScheduled,
	} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue})
	}
	for _, name := range []string{"checkout", "metrics-exporter", "istio-proxy"} {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name:        name,
			Ready:       true,
			ContainerID: "containerd://" + strings.Repeat("a", 64),
			ImageID:     "sha256:" + strings.Repeat("b", 64),
		})
	}
	return s
}
