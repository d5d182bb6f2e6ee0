package inject

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// The annotations of a Pod that are read here.
const (
	interceptionModeName     = "sidecar.istio.io/interceptionMode"
	statusPortName           = "status.sidecar.istio.io/port"
	includeInboundName       = "traffic.sidecar.istio.io/includeInboundPorts"
	excludeInboundName       = "traffic.sidecar.istio.io/excludeInboundPorts"
	includeRangesName        = "traffic.sidecar.istio.io/includeOutboundIPRanges"
	excludeRangesName        = "traffic.sidecar.istio.io/excludeOutboundIPRanges"
	includeOutboundPortsName = "traffic.sidecar.istio.io/includeOutboundPorts"
	excludeOutboundPortsName = "traffic.sidecar.istio.io/excludeOutboundPorts"
	excludeInterfacesName    = "traffic.sidecar.istio.io/excludeInterfaces"
	kubevirtName             = "traffic.sidecar.istio.io/kubevirtInterfaces"
	rerouteName              = "istio.io/reroute-virtual-interfaces"
	// ProxyConfigAnnotation is where a Pod configures its own proxy, as Istio's ProxyConfig.
	ProxyConfigAnnotation = model.ProxyConfigAnnotation
	overridesName         = "proxy.istio.io/overrides"
	mergeMetricsName      = "prometheus.istio.io/merge-metrics"
	statusName            = "sidecar.istio.io/status"
	templatesName         = "inject.istio.io/templates"
	nativeName            = "sidecar.istio.io/nativeSidecar"
	rewriteProbesName     = "sidecar.istio.io/rewriteAppHTTPProbers"
	proxyImageName        = "sidecar.istio.io/proxyImage"
	proxyImageTypeName    = "sidecar.istio.io/proxyImageType"
	cpuName               = "sidecar.istio.io/proxyCPU"
	memoryName            = "sidecar.istio.io/proxyMemory"
	cpuLimitName          = "sidecar.istio.io/proxyCPULimit"
	memoryLimitName       = "sidecar.istio.io/proxyMemoryLimit"
	logLevelName          = "sidecar.istio.io/logLevel"
	componentLevelName    = "sidecar.istio.io/componentLogLevel"
	agentLevelName        = "sidecar.istio.io/agentLogLevel"
	userVolumeName        = "sidecar.istio.io/userVolume"
	userMountName         = "sidecar.istio.io/userVolumeMount"
	bootstrapName         = "sidecar.istio.io/bootstrapOverride"
	bindServiceName       = "sidecar.istio.io/capNetBindService"
	readyDelayName        = "readiness.status.sidecar.istio.io/initialDelaySeconds"
	readyPeriodName       = "readiness.status.sidecar.istio.io/periodSeconds"
	readyFailuresName     = "readiness.status.sidecar.istio.io/failureThreshold"
)

// check returns what would be right if a value is wrong.
type check func(value string) (want string)

// checks returns how each annotation is checked. Templates put values into YAML, so no value has
// signs that mean something there.
func checks() map[string]check {
	return map[string]check{
		interceptionModeName:     mode,
		statusPortName:           matching(isPortOrZero, "a port, or 0 for none"),
		includeInboundName:       orAll(ports),
		excludeInboundName:       ports,
		includeRangesName:        orAll(ranges),
		excludeRangesName:        ranges,
		includeOutboundPortsName: orAll(ports),
		excludeOutboundPortsName: ports,
		excludeInterfacesName:    interfaces,
		kubevirtName:             interfaces,
		rerouteName:              interfaces,
		ProxyConfigAnnotation:    proxyConfig,
		overridesName:            anObject("the containers that injection has recorded, in JSON"),
		mergeMetricsName:         boolean,
		nativeName:               boolean,
		rewriteProbesName:        boolean,
		bindServiceName:          boolean,
		proxyImageName:           pattern(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`, "an image, or a name without registry"),
		proxyImageTypeName:       pattern(`^[a-z0-9-]+$`, "default, distroless or debug"),
		cpuName:                  quantity,
		memoryName:               quantity,
		cpuLimitName:             quantity,
		memoryLimitName:          quantity,
		logLevelName:             pattern(`^(trace|debug|info|warning|warn|error|critical|off)$`, "a level, as info"),
		componentLevelName:       pattern(`^([a-z0-9_]+:[a-z]+(,[a-z0-9_]+:[a-z]+)*)?$`, "levels, as http:debug"),
		agentLevelName:           pattern(`^([\w-]+:)?[a-z]+(,[\w-]+:[a-z]+)*$`, "levels, as default:info,xds:debug"),
		userVolumeName:           listedAs[corev1.Volume](volumesWanted),
		userMountName:            listedAs[corev1.VolumeMount](mountsWanted),
		bootstrapName:            name("the name of a ConfigMap"),
		readyDelayName:           seconds,
		readyPeriodName:          seconds,
		readyFailuresName:        seconds,
	}
}

// AnnotationError is one annotation that is wrong.
type AnnotationError struct {
	Name, Value string
	// Want is what would be right.
	Want string
}

func (e *AnnotationError) Error() string {
	return fmt.Sprintf("metadata.annotations[%s] = %q; want %s", e.Name, excerpt(e.Value), e.Want)
}

// excerpt returns a value as messages and logs have it: an annotation may have 256 KiB.
func excerpt(value string) string {
	const most = 256
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "…"
}

// checkAnnotations returns an error that joins an AnnotationError for each wrong annotation, in the
// order of their names.
func checkAnnotations(annotations map[string]string) error {
	bytes := 0
	for name, value := range annotations {
		bytes += len(name) + len(value)
	}
	if bytes > untrusted.MaxAnnotations {
		return fmt.Errorf("metadata.annotations have %d bytes; want at most %d", bytes, untrusted.MaxAnnotations)
	}
	all := checks()
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		check, known := all[name]
		if !known {
			continue
		}
		value := annotations[name]
		if want := check(value); want != "" {
			problems = append(problems, &AnnotationError{name, value, want})
		}
	}
	return errors.Join(problems...)
}

func matching(right func(string) bool, want string) check {
	return func(value string) string {
		if right(value) {
			return ""
		}
		return want
	}
}

func pattern(expression, want string) check {
	return matching(regexp.MustCompile(expression).MatchString, want)
}

func name(want string) check {
	return matching(func(s string) bool { return len(validation.IsDNS1123Subdomain(s)) == 0 }, want)
}

func boolean(value string) string {
	_, err := strconv.ParseBool(value)
	return matching(func(string) bool { return err == nil }, `"true" or "false"`)(value)
}

func seconds(value string) string {
	_, err := strconv.ParseUint(value, 10, 31)
	return matching(func(string) bool { return err == nil }, "a number, 0 or more")(value)
}

func quantity(value string) string {
	q, err := untrusted.Quantity(value)
	return matching(func(string) bool { return err == nil && q.Sign() >= 0 }, "a quantity, as 100m or 128Mi")(value)
}

// The interception modes beside REDIRECT.
const (
	noInterception = "NONE"
	transparent    = "TPROXY"
)

func mode(value string) string {
	known := func(s string) bool { return s == "REDIRECT" || s == transparent || s == noInterception }
	return matching(known, "REDIRECT, TPROXY or NONE")(value)
}

func isPortOrZero(s string) bool {
	_, err := strconv.ParseUint(strings.TrimSpace(s), 10, 16)
	return err == nil
}

// maxListed is how many ports, ranges or interfaces an annotation may list: each becomes a rule.
const maxListed = 1000

// each checks the parts of a list with commas. An empty list is one.
func each(right func(string) bool, want string) check {
	all := matching(func(value string) bool {
		if value == "" {
			return true
		}
		for part := range strings.SplitSeq(value, ",") {
			if !right(strings.TrimSpace(part)) {
				return false
			}
		}
		return true
	}, want)
	return func(value string) string {
		if strings.Count(value, ",") >= maxListed {
			return fmt.Sprintf("%s, and at most %d", want, maxListed)
		}
		return all(value)
	}
}

func orAll(of check) check {
	return func(value string) string {
		want := of(value)
		if want == "" || value == "*" {
			return ""
		}
		return want + ", or *"
	}
}

func ports(value string) string {
	return each(func(s string) bool { return isPortOrZero(s) && s != "0" }, "ports, as 8080,9090")(value)
}

func ranges(value string) string {
	return each(func(s string) bool {
		_, err := netip.ParsePrefix(s)
		return err == nil
	}, "ranges of addresses, as 10.0.0.0/8,fd00::/8")(value)
}

func interfaces(value string) string {
	named := regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,15}$`)
	return each(named.MatchString, "names of network interfaces, as eth1,net1")(value)
}

func anObject(want string) check {
	return matching(func(value string) bool {
		var o map[string]any
		return untrusted.Annotation().JSON([]byte(value), &o) == nil && o != nil
	}, want)
}

func proxyConfig(value string) string {
	if _, err := ownProxyConfig(value); err != nil {
		return "the fields of Istio's ProxyConfig in YAML: " + err.Error()
	}
	return ""
}

// withoutEffect returns the annotations of Istio that change nothing here, with why: those of its
// reference, and older ones.
func withoutEffect() map[string]string {
	why := istionames.Annotations()
	why["sidecar.istio.io/controlPlaneAuthPolicy"] = "has no effect: proxies reach the control plane by TLS"
	why["sidecar.istio.io/enableCoreDump"] = "has no effect; want a template that allows it"
	return why
}

// warnOfAnnotations tells the annotations of Istio that change nothing.
func (r *request) warnOfAnnotations() {
	why := withoutEffect()
	for _, name := range sortedKeys(r.pod.Annotations) {
		if reason, ok := why[name]; ok {
			r.warn("metadata.annotations[%s] %s", name, reason)
		}
	}
}

// ownProxyConfig reads the configuration that a Pod has for its own proxy.
func ownProxyConfig(text string) (*mesh.ProxyConfig, error) {
	raw, err := untrusted.Annotation().YAMLToJSON(text)
	if err == nil {
		err = untrusted.Annotation().Check(raw)
	}
	if err != nil {
		return nil, err
	}
	config := &mesh.ProxyConfig{}
	return config, unmarshalJSON(raw, config, protojson.UnmarshalOptions{})
}
