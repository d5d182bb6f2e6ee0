package unions

import (
	"maps"
	"slices"
)

// Handlers returns the members of probes, and of hooks beside their own.
func Handlers() []string { return []string{"exec", "httpGet", "tcpSocket", "grpc", "sleep"} }

// ValueSources returns the members of an environment variable's valueFrom.
func ValueSources() []string {
	return []string{"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"}
}

// ReplaceInPod removes from a Pod the members of unions that a patch is to replace by others.
func ReplaceInPod(pod, patch map[string]any) {
	replaceInSpec(objectIn(pod, "spec"), objectIn(patch, "spec"))
}

// ReplaceInWorkload does so for a workload: the template of its Pods, and its strategy, whose
// rollingUpdate belongs to one type.
func ReplaceInWorkload(workload, patch map[string]any) {
	under, over := objectIn(workload, "spec"), objectIn(patch, "spec")
	ReplaceInPod(objectIn(under, "template"), objectIn(over, "template"))
	for _, strategy := range []string{"strategy", "updateStrategy"} {
		if kind := objectIn(over, strategy)["type"]; kind != nil && kind != "RollingUpdate" {
			delete(objectIn(under, strategy), "rollingUpdate")
		}
	}
}

func replaceInSpec(under, over map[string]any) {
	replaceProfiles(under, over)
	pairs(under, over, "volumes", "name", func(under, over map[string]any) {
		if source := VolumeSource(over); source != "" {
			maps.DeleteFunc(under, func(field string, _ any) bool { return field != "name" && field != source })
		}
	})
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		pairs(under, over, list, "name", replaceInContainer)
	}
}

// VolumeSource returns the source that a volume has, empty if it has none. null is none.
func VolumeSource(volume map[string]any) string {
	for _, field := range slices.Sorted(maps.Keys(volume)) {
		if field != "name" && field != "$patch" && field != "$retainKeys" && volume[field] != nil {
			return field
		}
	}
	return ""
}

func replaceInContainer(under, over map[string]any) {
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		replaceMember(objectIn(under, probe), objectIn(over, probe), Handlers())
	}
	for _, hook := range []string{"postStart", "preStop"} {
		replaceMember(objectIn(objectIn(under, "lifecycle"), hook), objectIn(objectIn(over, "lifecycle"), hook),
			Handlers())
	}
	pairs(under, over, "env", "name", func(under, over map[string]any) {
		replaceMember(under, over, []string{"value", "valueFrom"})
		replaceMember(objectIn(under, "valueFrom"), objectIn(over, "valueFrom"), ValueSources())
	})
	pairs(under, over, "volumeMounts", "mountPath", func(under, over map[string]any) {
		replaceMember(under, over, []string{"subPath", "subPathExpr"})
	})
	replaceProfiles(under, over)
}

// replaceProfiles removes the file of a profile whose type becomes another one.
func replaceProfiles(under, over map[string]any) {
	for _, profile := range []string{"seccompProfile", "appArmorProfile"} {
		now := objectIn(objectIn(over, "securityContext"), profile)
		if kind := now["type"]; kind != nil && kind != "Localhost" {
			delete(objectIn(objectIn(under, "securityContext"), profile), "localhostProfile")
		}
	}
}

// replaceMember removes the members that the patch replaces by another one.
func replaceMember(under, over map[string]any, members []string) {
	for _, member := range members {
		if over[member] == nil {
			continue
		}
		for _, other := range members {
			if other != member {
				delete(under, other)
			}
		}
	}
}

// pairs calls f with the elements of two lists that have the same key.
func pairs(under, over map[string]any, list, key string, f func(under, over map[string]any)) {
	for _, now := range objectsIn(over, list) {
		for _, before := range objectsIn(under, list) {
			if name, ok := now[key].(string); ok && before[key] == name {
				f(before, now)
			}
		}
	}
}

func objectIn(o map[string]any, field string) map[string]any {
	of, _ := o[field].(map[string]any)
	return of
}

func objectsIn(o map[string]any, field string) []map[string]any {
	all, _ := o[field].([]any)
	var out []map[string]any
	for _, one := range all {
		if of, ok := one.(map[string]any); ok {
			out = append(out, of)
		}
	}
	return out
}
