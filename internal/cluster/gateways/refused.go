package gateways

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// checkDeployment refuses what overlays may not make of a Pod. Who may write Gateways and
// ConfigMaps in a namespace may by them run containers there, as the Gateway's own service account:
// but not as another one, and not with rights on the node.
func checkDeployment(body map[string]any, account string) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var d appsv1.Deployment
	if err := json.Unmarshal(raw, &d); err != nil {
		return invalidf("the parameters make no Deployment: %v", err)
	}
	if field := refusedField(&d.Spec.Template.Spec, account); field != "" {
		return invalidf("the parameters set spec.template.spec.%s, which they may not; "+
			"want a Deployment of your own for that (spec.addresses)", field)
	}
	return nil
}

// refusedField returns the first field of a Pod that parameters may not set so; "" for none.
func refusedField(pod *corev1.PodSpec, account string) string {
	switch {
	case pod.ServiceAccountName != account:
		return "serviceAccountName"
	case pod.DeprecatedServiceAccount != "" && pod.DeprecatedServiceAccount != account:
		return "serviceAccount"
	case pod.HostNetwork:
		return "hostNetwork"
	case pod.HostPID:
		return "hostPID"
	case pod.HostIPC:
		return "hostIPC"
	}
	for i, v := range pod.Volumes {
		if v.HostPath != nil {
			return fmt.Sprintf("volumes[%d].hostPath", i)
		}
	}
	for list, containers := range map[string][]corev1.Container{
		"containers": pod.Containers, "initContainers": pod.InitContainers,
	} {
		for i, c := range containers {
			if field := refusedSecurity(c.SecurityContext); field != "" {
				return fmt.Sprintf("%s[%d].securityContext.%s", list, i, field)
			}
		}
	}
	return ""
}

func refusedSecurity(s *corev1.SecurityContext) string {
	if s == nil {
		return ""
	}
	if s.Privileged != nil && *s.Privileged {
		return "privileged"
	}
	if s.Capabilities != nil {
		for _, added := range s.Capabilities.Add {
			if added != "NET_BIND_SERVICE" {
				return "capabilities.add"
			}
		}
	}
	return ""
}
