package inject

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// identity is a user or a group that a container of the application runs as, with the field that
// says so.
type identity struct {
	id    int64
	field string
}

// applicationIDs returns the users and groups of the containers that run beside the proxy, as far
// as the Pod names them. Init containers that end do not count: users give them the proxy's user,
// so that they reach the network before the proxy runs.
func applicationIDs(pod *corev1.Pod) []identity {
	var all []identity
	add := func(id *int64, field string) {
		if id != nil {
			all = append(all, identity{*id, field})
		}
	}
	if s := pod.Spec.SecurityContext; s != nil && hasApplication(pod) {
		add(s.RunAsUser, "spec.securityContext.runAsUser")
		add(s.RunAsGroup, "spec.securityContext.runAsGroup")
	}
	each := func(list string, containers []corev1.Container, counts func(*corev1.Container) bool) {
		for n := range containers {
			c := &containers[n]
			if s := c.SecurityContext; s != nil && counts(c) {
				at := fmt.Sprintf("spec.%s[%s].securityContext", list, c.Name)
				add(s.RunAsUser, at+".runAsUser")
				add(s.RunAsGroup, at+".runAsGroup")
			}
		}
	}
	each(plain, pod.Spec.Containers, isApplication)
	each(first, pod.Spec.InitContainers, func(c *corev1.Container) bool {
		return isApplication(c) && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
	return all
}

func isApplication(c *corev1.Container) bool {
	return c.Name != proxyName && c.Name != initName && c.Name != validationName
}

func hasApplication(pod *corev1.Pod) bool {
	for n := range pod.Spec.Containers {
		if isApplication(&pod.Spec.Containers[n]) {
			return true
		}
	}
	return false
}

// chooseUser chooses the user that the proxy runs as. Interception excepts the connections of that
// user and of the group with the same number, so an application with either would bypass the
// proxy, and with it all policies. The proxy's own setting counts unless the application has it, or
// the proxy has to be root: OpenShift gives all containers of a Pod one user before webhooks are
// asked.
func (r *request) chooseUser() {
	own := proxyIn(r.pod)
	if r.mode() != transparent && own != nil && own.SecurityContext != nil && own.SecurityContext.RunAsUser != nil &&
		*own.SecurityContext.RunAsUser > 0 {
		r.user = *own.SecurityContext.RunAsUser
	}
	application := applicationIDs(r.pod)
	taken := func(id int64) int {
		return slices.IndexFunc(application, func(of identity) bool { return of.id == id })
	}
	if r.mode() == noInterception {
		return // nothing is redirected, so nothing is excepted
	}
	at := taken(r.user)
	if at < 0 {
		return
	}
	shared := application[at]
	r.apart = true
	for r.user = proxyUser; taken(r.user) >= 0; {
		r.user++
	}
	r.warn("%s = %d: the proxy would have that user or group too, and the application's connections would bypass it; "+
		"the proxy runs as %d instead; want another one for the application", shared.field, shared.id, r.user)
}

// group is the group that the proxy runs as. Interception excepts it too, so a proxy that is root
// for low ports is told by it.
func (r *request) group() int64 {
	if r.apart {
		return r.user
	}
	return proxyUser
}

// withoutUser removes the user from the Pod's own settings of its proxy.
func withoutUser(container object) {
	s, _ := container["securityContext"].(object)
	delete(s, "runAsUser")
	delete(s, "runAsGroup")
}

// separate puts the chosen user where a template has written another one.
func (r *request) separate(pod, proxy object) {
	if !r.apart {
		return
	}
	r.isUserOf(proxy)
	for _, name := range []string{initName, validationName} {
		interception := named(containers(pod, first), name)
		args, _ := interception["args"].([]any)
		for n := range args {
			if n > 0 && slices.Contains([]any{"-u", "-g"}, args[n-1]) {
				args[n] = fmt.Sprint(r.user)
			}
		}
		if name == validationName && interception != nil {
			r.isUserOf(interception)
		}
	}
}

// isUserOf has a container run as the chosen user, unless it is root, and as the group.
func (r *request) isUserOf(container object) {
	s := under(container, "securityContext")
	if fmt.Sprint(s["runAsUser"]) != "0" {
		s["runAsUser"] = float64(r.user)
	}
	s["runAsGroup"] = float64(r.user)
}

// warn notes what is done otherwise than the Pod says.
func (r *request) warn(format string, args ...any) {
	r.warnings = append(r.warnings, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}
