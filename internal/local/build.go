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
	// proxyContainer is the name of the container that Envoy is, as in a cluster.
	proxyContainer = "istio-proxy"
	// sampleImage is the image, with any tag, that runs the built-in sample server.
	sampleImage = "lateen/sample"
)

// fault is a mistake somewhere in a pod's specification, relative to the container or the
// specification.
type fault struct {
	severity             source.Severity
	path, value, message string
	want                 string
}

// broken makes faults errors: they keep the pod from starting.
func broken(faults []fault, prefix string) []fault {
	for i := range faults {
		faults[i].severity = source.Error
		faults[i].path = strings.TrimSuffix(prefix+"."+faults[i].path, ".")
	}
	return faults
}

// launch is one process to run and keep running.
type launch struct {
	container string
	argv      []string
	env       []string
	dir       string
	readiness probe
	liveness  *probe
	restart   corev1.RestartPolicy
	grace     time.Duration // from SIGTERM to SIGKILL
	// files, if not nil, opens what the process inherits beside its output, as descriptors from 3
	// on; they are closed here once it runs.
	files func() ([]*os.File, error)
}

// podRole is what a pod is made of; the names follow Istio's node types.
type podRole uint8

const (
	roleSidecar podRole = iota // app and Envoy
	roleGateway                // Envoy alone
	roleBare                   // app alone
)

// roleOf reads Istio's injection labels and annotations. A directory is meshed unless it says
// otherwise: `lateen up` is opt-out.
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

// builder turns containers into launches.
type builder struct {
	in      surroundings
	role    podRole
	self    string
	workDir string
	grace   time.Duration
}

// launches are the pod's processes without its Envoy. With a fault that is an error the pod cannot
// start.
func (b builder) launches() ([]launch, []fault) {
	spec := &b.in.pod.Spec
	faults := leftOut(spec)
	var out []launch
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.Name == proxyContainer {
			continue
		}
		l, fs := b.launch(c)
		if len(fs) > 0 {
			faults = append(faults, broken(fs, fmt.Sprintf("containers[%d]", i))...)
			continue
		}
		out = append(out, l)
	}
	if len(out) == 0 && b.role != roleGateway && len(faults) == 0 {
		faults = append(faults, fault{severity: source.Error, path: "containers", message: "there is nothing to run",
			want: "a container with a command"})
	}
	return out, faults
}

func (b builder) launch(c *corev1.Container) (launch, []fault) {
	env, faults := containerEnv(b.in, c)
	l := launch{container: c.Name, env: env.list(), restart: b.in.pod.Spec.RestartPolicy, grace: b.grace}
	switch image, _, _ := strings.Cut(c.Image, ":"); {
	case len(c.Command) > 0:
		l.argv = slices.Clone(c.Command)
	case strings.TrimPrefix(image, "docker.io/") == sampleImage:
		l.argv = []string{b.self, "sample"}
	default:
		faults = append(faults, fault{
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
	var fs []fault
	of := probed{app: b.in.addrs.App, env: l.env, dir: l.dir}
	l.readiness, fs = readinessOf(c, of)
	faults = append(faults, fs...)
	if ports := containerPorts(&corev1.PodSpec{Containers: []corev1.Container{*c}}); b.in.sidecar &&
		b.in.addrs.Pod.IsValid() && len(ports) > 0 {
		l.readiness.check = keepsToItself(l.readiness.check, b.in.addrs, ports)
	}
	l.liveness, fs = livenessOf(c, of)
	return l, append(faults, fs...)
}

// leftOut warns of what a cluster would do and this runtime does not.
func leftOut(spec *corev1.PodSpec) []fault {
	var out []fault
	warn := func(path, message string) {
		out = append(out, fault{path: path, message: message, want: "no such field"})
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

// containerPorts are the TCP ports that the pod's containers declare, Envoy's own left out.
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
