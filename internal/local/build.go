package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

const (
	// proxyContainer is the name of Envoy's container, as in a cluster.
	proxyContainer = "istio-proxy"
	// sampleImage is the image, with any tag, that runs the built-in sample server.
	sampleImage = "lateen/sample"
)

// specProblem is a mistake in a pod's specification. Its path is relative to the container or the
// specification.
type specProblem struct {
	severity             source.Severity
	path, value, message string
	want                 string
}

// asErrors makes problems errors, which keep the pod from starting.
func asErrors(problems []specProblem, prefix string) []specProblem {
	for i := range problems {
		problems[i].severity = source.Error
		problems[i].path = strings.TrimSuffix(prefix+"."+problems[i].path, ".")
	}
	return problems
}

// processSpec is one process to run and keep running.
type processSpec struct {
	container string
	argv      []string
	env       []string
	dir       string
	readiness probe
	liveness  *probe
	restart   corev1.RestartPolicy
	grace     time.Duration // from SIGTERM to SIGKILL
	// files opens further files that the process inherits, as descriptors from 3 on; nil for none.
	// The runtime closes them once the process runs.
	files func() ([]*os.File, error)
}

// podRole is the kind of a pod. The names follow Istio's node types.
type podRole uint8

const (
	roleSidecar podRole = iota // app and Envoy
	roleGateway                // Envoy alone
	roleBare                   // app alone
)

// roleOf reads Istio's injection labels and annotations. Without any a pod gets a sidecar: `lateen
// up` is opt-out.
func roleOf(meta *corev1.Pod, namespace *corev1.Namespace) podRole {
	if slices.Contains(strings.Split(meta.Annotations["inject.istio.io/templates"], ","), "gateway") {
		return roleGateway
	}
	inject := meta.Labels["sidecar.istio.io/inject"]
	if inject == "" {
		inject = meta.Annotations["sidecar.istio.io/inject"]
	}
	if inject == "" && namespace != nil && namespace.Labels["istio-injection"] == "disabled" {
		inject = "false"
	}
	if inject == "false" {
		return roleBare
	}
	return roleSidecar
}

// builder makes processSpecs of containers.
type builder struct {
	in      envInputs
	role    podRole
	self    string
	workDir string
	grace   time.Duration
}

// processSpecs returns the pod's processes without its Envoy. The pod cannot start if one of the
// problems is an error.
func (b builder) processSpecs() ([]processSpec, []specProblem) {
	spec := &b.in.pod.Spec
	problems := unsupported(spec)
	var out []processSpec
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.Name == proxyContainer {
			continue
		}
		l, fs := b.processSpec(c)
		if len(fs) > 0 {
			problems = append(problems, asErrors(fs, fmt.Sprintf("containers[%d]", i))...)
			continue
		}
		out = append(out, l)
	}
	if len(out) == 0 && b.role != roleGateway && len(problems) == 0 {
		problems = append(problems, specProblem{
			severity: source.Error,
			path:     "containers",
			message:  "there is nothing to run",
			want:     "a container with a command",
		})
	}
	return out, problems
}

func (b builder) processSpec(c *corev1.Container) (processSpec, []specProblem) {
	env, problems := containerEnv(b.in, c)
	l := processSpec{container: c.Name, env: env.list(), restart: b.in.pod.Spec.RestartPolicy, grace: b.grace}
	switch image, _, _ := strings.Cut(c.Image, ":"); {
	case len(c.Command) > 0:
		l.argv = slices.Clone(c.Command)
	case strings.TrimPrefix(image, "docker.io/") == sampleImage:
		l.argv = []string{b.self, "sample"}
	default:
		problems = append(problems, specProblem{
			path:    "image",
			value:   c.Image,
			message: "images are not pulled: there is nothing to run",
			want:    "a command that runs a local program, or the image " + sampleImage,
		})
	}
	l.argv = append(l.argv, c.Args...)
	for i := range l.argv {
		l.argv[i] = expand(l.argv[i], env.lookup)
	}
	l.dir = c.WorkingDir
	if !filepath.IsAbs(l.dir) {
		l.dir = filepath.Join(b.workDir, l.dir)
	}
	var fs []specProblem
	of := probeTarget{app: b.in.addrs.App, env: l.env, dir: l.dir}
	l.readiness, fs = readinessOf(c, of)
	problems = append(problems, fs...)
	if ports := containerPorts(&corev1.PodSpec{Containers: []corev1.Container{*c}}); b.in.sidecar &&
		b.in.addrs.Pod.IsValid() && len(ports) > 0 {
		l.readiness.check = onlyOnAppAddress(l.readiness.check, b.in.addrs, ports)
	}
	l.liveness, fs = livenessOf(c, of)
	return l, append(problems, fs...)
}

// unsupported warns of fields that a cluster would use and this runtime does not.
func unsupported(spec *corev1.PodSpec) []specProblem {
	var out []specProblem
	warn := func(path, message string) {
		out = append(out, specProblem{path: path, message: message, want: "no such field"})
	}
	if len(spec.InitContainers) > 0 {
		warn("initContainers", "init containers are not run")
	}
	for i, c := range spec.Containers {
		if len(c.VolumeMounts) > 0 {
			warn(fmt.Sprintf("containers[%d].volumeMounts", i),
				"volumes are not mounted: the process sees the local files")
		}
		if c.StartupProbe != nil {
			warn(fmt.Sprintf("containers[%d].startupProbe", i), "startup probes are not run")
		}
	}
	return out
}

// containerPorts returns the TCP ports that the pod's containers declare.
func containerPorts(spec *corev1.PodSpec) []int32 {
	var out []int32
	for _, c := range spec.Containers {
		for _, p := range c.Ports {
			if p.Protocol == "" || p.Protocol == corev1.ProtocolTCP {
				out = append(out, p.ContainerPort)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
