package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// The names of containers that are added.
const (
	proxyName = "istio-proxy"
	initName  = "istio-init"
	// validationName is in the place of initName where a CNI plugin redirects connections: its node
	// agent looks for this name.
	validationName = "istio-validation"
)

// Pod is a Pod that may get a proxy.
type Pod struct {
	// JSON is the Pod as it is.
	JSON []byte
	// Namespace is where it is created, which it need not say itself.
	Namespace string
	// Owner is its workload; the zero value stands for what its owner references say.
	Owner Owner
	// Variables are set in the proxy's environment, and stand above the values.
	Variables map[string]string
	// Configs returns the ProxyConfigs in force for a Pod's namespace and labels; nil for none.
	Configs func(namespace string, labels map[string]string) model.ProxyConfigs
}

// Result is what became of a Pod.
type Result struct {
	Decision
	// JSON is the Pod with its proxy, and Patch the JSON patch that leads there. Both are nil if it
	// gets none.
	JSON, Patch []byte
}

// request is a Pod that gets a proxy.
type request struct {
	original  object      // as it came; nothing changes it
	pod       *corev1.Pod // without what an injection before has added
	before    *injectedStatus
	namespace string
	owner     Owner
	proxy     *mesh.ProxyConfig
	native    bool
	user      int64
	variables map[string]string
	// apart is set if the proxy does not run as the user that was asked for; see chooseUser.
	apart bool
	// warnings say what of the Pod is done otherwise, or has no effect.
	warnings []string
}

// receiverNotUsed is said of a Pod whose annotation names where its spans go.
const receiverNotUsed = "metadata.annotations[" + ProxyConfigAnnotation + "]: tracing names where spans go, " +
	"which has no effect for one Pod; want a Telemetry that selects the Pod and names a provider"

// Inject adds the proxy to a Pod, if it gets one. An error is about the Pod.
func (i *Injector) Inject(p Pod) (result Result, err error) {
	defer func() { // libraries judge what users wrote
		if problem := recover(); problem != nil {
			err = fmt.Errorf("the Pod cannot be injected: %v", problem)
		}
	}()
	typed := &corev1.Pod{}
	if err := untrusted.Pod().Typed(p.JSON, typed); err != nil {
		return result, fmt.Errorf("this is no Pod: %w", err)
	}
	namespace := p.Namespace
	if namespace == "" {
		namespace = typed.Namespace
	}
	result.Decision = i.Decide(typed, namespace)
	if !result.Inject {
		return result, nil
	}
	r, err := i.request(p, typed, namespace)
	if err != nil {
		return result, err
	}
	if result.Warning != "" {
		r.warnings = slices.Insert(r.warnings, 0, result.Warning)
	}
	out, err := i.inject(r)
	result.Warning = strings.Join(r.warnings, "; ")
	if err != nil {
		return result, err
	}
	if result.JSON, err = json.Marshal(out); err != nil {
		return result, err
	}
	result.Patch, err = patch(r.original, out)
	return result, err
}

// request reads what a Pod says.
func (i *Injector) request(p Pod, typed *corev1.Pod, namespace string) (*request, error) {
	if err := checkAnnotations(typed.Annotations); err != nil {
		return nil, err
	}
	r := &request{
		namespace: namespace, owner: p.Owner, native: i.NativeSidecars, user: proxyUser, variables: p.Variables,
	}
	if err := json.Unmarshal(p.JSON, &r.original); err != nil {
		return nil, err
	}
	var err error
	if r.before, err = statusOf(typed); err != nil {
		return nil, err
	}
	if r.pod, err = r.before.strip(typed); err != nil {
		return nil, err
	}
	if r.owner == (Owner{}) {
		r.owner = ownerOf(typed)
	}
	if asked, ok := typed.Annotations[nativeName]; ok {
		r.native, _ = strconv.ParseBool(asked) // it has been checked
	}
	if err := i.readProxyConfig(r, p, typed); err != nil {
		return nil, err
	}
	r.chooseUser()
	r.warnOfAnnotations()
	return r, nil
}

// readProxyConfig reads the configuration of a Pod's proxy: that of the mesh, then the ProxyConfigs
// of the mesh and of the namespace, the Pod's annotation, and the ProxyConfig that selects the Pod.
func (i *Injector) readProxyConfig(r *request, p Pod, typed *corev1.Pod) error {
	var objects model.ProxyConfigs
	if p.Configs != nil {
		objects = p.Configs(r.namespace, typed.Labels)
	}
	out := overProxy(overProxy(i.mesh.proxy, started(objects.Mesh)), started(objects.Namespace))
	if text, ok := typed.Annotations[ProxyConfigAnnotation]; ok {
		own, err := ownProxyConfig(text)
		if err != nil {
			return fmt.Errorf("metadata.annotations[%s]: %w", ProxyConfigAnnotation, err)
		}
		out = overProxy(out, own)
		if own.GetTracing().GetTracer() != nil {
			r.warn("%s", receiverNotUsed)
		}
	}
	r.proxy = overProxy(out, started(objects.Workload))
	return nil
}

// started returns what a ProxyConfig sets, nil if there is none.
func started(c *model.ProxyConfig) *mesh.ProxyConfig {
	if c == nil {
		return nil
	}
	out := &mesh.ProxyConfig{}
	if c.Concurrency != nil {
		out.Concurrency = wrapperspb.Int32(*c.Concurrency)
	}
	if c.ImageType != "" {
		out.Image = &networking.ProxyImage{ImageType: c.ImageType}
	}
	for _, v := range c.Environment {
		if out.ProxyMetadata == nil {
			out.ProxyMetadata = map[string]string{}
		}
		out.ProxyMetadata[v.Name] = v.Value
	}
	return out
}

// annotation returns an annotation of the Pod, or what stands for it.
func (r *request) annotation(name, standard string) string {
	if value, ok := r.pod.Annotations[name]; ok {
		return value
	}
	return standard
}

// inject returns the Pod with its proxy.
func (i *Injector) inject(r *request) (object, error) {
	names, err := i.templatesNamed(i.chosen(r))
	if err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s] = %q: %w", templatesName,
			r.annotation(templatesName, ""), err)
	}
	data, err := i.data(r)
	if err != nil {
		return nil, err
	}
	out, added := copied(r.original).(object), object{}
	for _, name := range names {
		overlay, err := i.render(name, data)
		if err != nil {
			return nil, err
		}
		overlay = r.withoutVolumes(overlay)
		r.alignProxy(out, added, overlay)
		if added, err = merged(added, overlay); err != nil {
			return nil, err
		}
		if out, err = merged(out, overlay); err != nil {
			return nil, err
		}
	}
	if out, err = r.withOverrides(out, added); err != nil {
		return nil, err
	}
	if err := i.finish(r, out, added); err != nil {
		return nil, err
	}
	return out, nil
}

// chosen returns the names of the templates that the Pod asks for, or the default ones.
func (i *Injector) chosen(r *request) []string {
	asked, ok := r.pod.Annotations[templatesName]
	if !ok {
		return i.DefaultTemplates
	}
	names := strings.Split(asked, ",")
	for n := range names {
		names[n] = strings.TrimSpace(names[n])
	}
	return names
}

// alignProxy moves the proxy of all to one list: that of the templates, and where they differ the
// one of the mode. So settings of the Pod and templates beside the first one may name the proxy in
// either list, with native sidecars and without.
func (r *request) alignProxy(pod, added, overlay object) {
	has := func(list string) bool {
		return named(containers(added, list), proxyName) != nil || named(containers(overlay, list), proxyName) != nil
	}
	to := first
	switch inPlain, inFirst := has(plain), has(first); {
	case !inPlain && !inFirst:
		return
	case !inFirst, inPlain && !r.native:
		to = plain
	}
	for _, o := range []object{pod, added, overlay} {
		moveProxy(o, to)
	}
}

func moveProxy(pod object, to string) {
	from := otherList(to)
	own := named(containers(pod, from), proxyName)
	if own == nil || named(containers(pod, to), proxyName) != nil {
		return
	}
	setContainers(pod, from, without(containers(pod, from), proxyName))
	setContainers(pod, to, append(containers(pod, to), asIn(own, to)))
}

func otherList(list string) string {
	if list == first {
		return plain
	}
	return first
}

// asIn returns a container without what its list does not allow.
func asIn(container object, list string) object {
	if list == plain {
		delete(container, "restartPolicy")
	}
	return container
}

// finish does what no template can.
func (i *Injector) finish(r *request, pod, added object) error {
	if proxy := proxyOf(pod); proxy != nil {
		i.locate(r, pod, proxy)
		r.separate(pod, proxy)
		r.warnOfTransparent(proxy)
		if err := i.mergeMetrics(r, pod, proxy); err != nil {
			return err
		}
		if i.rewritesProbes(r) {
			if err := i.rewriteProbes(r, pod, proxy); err != nil {
				return err
			}
		}
	}
	annotations := under(under(pod, "metadata"), "annotations")
	for name, value := range i.InjectedAnnotations {
		annotations[name] = value
	}
	status, err := i.status(r, added)
	if err != nil {
		return err
	}
	annotations[statusName] = status
	i.order(r, pod)
	return nil
}

// The variables that say where a proxy is.
const (
	clusterVariable = "ISTIO_META_CLUSTER_ID"
	networkVariable = "ISTIO_META_NETWORK"
	networkLabel    = "topology.istio.io/network"
)

// locate sets what the webhook's path and the Pod's label say of its cluster and network.
func (i *Injector) locate(r *request, pod, proxy object) {
	labels := under(under(pod, "metadata"), "labels")
	for _, name := range sortedKeys(r.variables) {
		setVariable(proxy, name, r.variables[name])
	}
	if network, ok := r.variables[networkVariable]; ok {
		labels[networkLabel] = network
	} else if network, ok := r.pod.Labels[networkLabel]; ok {
		setVariable(proxy, networkVariable, network)
	}
	if len(labels) == 0 {
		delete(under(pod, "metadata"), "labels")
	}
}

// order sorts the containers. The proxy stands last, so that tools take the Pod's own container by
// default, unless the application waits for it. A proxy among the init containers starts before
// all others, behind the interception; else interception comes last, because until the proxy runs
// it stops everything. Validation is first of all: where connections are not redirected, no other
// container may make one.
func (i *Injector) order(r *request, pod object) {
	own := containers(pod, plain)
	if proxy := named(own, proxyName); proxy != nil {
		if i.holds(r) {
			own = append([]object{proxy}, without(own, proxyName)...)
		} else {
			own = append(without(own, proxyName), proxy)
		}
		setContainers(pod, plain, own)
	}
	all := containers(pod, first)
	proxy, interception, validation := named(all, proxyName), named(all, initName), named(all, validationName)
	all = without(without(without(all, proxyName), initName), validationName)
	switch {
	case proxy != nil && interception != nil:
		all = slices.Insert(all, 0, interception, proxy)
	case proxy != nil:
		all = slices.Insert(all, 0, proxy)
	case interception != nil:
		all = append(all, interception)
	}
	if validation != nil {
		all = slices.Insert(all, 0, validation)
	}
	if len(all) > 0 {
		setContainers(pod, first, all)
	}
}
