package install

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// container is Istio's name of the container: dashboards look for it.
const container = "discovery"

// args returns the command line of the control plane. It listens outside of loopback only at the
// addresses here, and none of them serves xDS in plaintext.
func (o Options) args() []string {
	args := []string{"serve"}
	for _, l := range []struct {
		flag string
		port int
	}{
		{"health-address", portHealth},
		{"secure-xds-address", portSecureXDS},
		{"monitoring-address", portMonitoring},
		{"webhook-address", portWebhook},
	} {
		args = append(args, fmt.Sprintf("--%s=:%d", l.flag, l.port))
	}
	return append(args, "--log-format=json")
}

func (o Options) deployment() runtime.Object {
	surge, unavailable := intstr.FromString("100%"), intstr.FromString("25%")
	replicas := o.Replicas
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: o.meta(o.names().Deployment),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: o.selector()},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: o.podLabels(),
					Annotations: map[string]string{
						"prometheus.io/port":      fmt.Sprint(portMonitoring),
						"prometheus.io/scrape":    "true",
						"sidecar.istio.io/inject": "false",
					},
				},
				Spec: o.pod(),
			},
		},
	}
}

func (o Options) podLabels() map[string]string {
	labels := o.labels()
	labels["sidecar.istio.io/inject"] = "false"
	return labels
}

func (o Options) pod() corev1.PodSpec {
	yes, no, user := true, false, int64(1337)
	ready := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt(portHealth)}}
	return corev1.PodSpec{
		ServiceAccountName: o.names().Deployment,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: container, Image: o.Image, Args: o.args(), Env: o.env(), Ports: ports(),
			ReadinessProbe: &corev1.Probe{ProbeHandler: ready, PeriodSeconds: 3, TimeoutSeconds: 5},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
			}},
		}},
	}
}

func (o Options) env() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{
			Name:      name,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
		}
	}
	return []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		{Name: "REVISION", Value: o.revision()},
	}
}

func ports() []corev1.ContainerPort {
	return []corev1.ContainerPort{
		{Name: "http-health", ContainerPort: portHealth}, {Name: "https-xds", ContainerPort: portSecureXDS},
		{Name: "http-monitor", ContainerPort: portMonitoring}, {Name: "https-webhook", ContainerPort: portWebhook},
	}
}
