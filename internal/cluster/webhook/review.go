package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// The reasons of a refusal, as labels of galley_validation_failed.
const (
	unreadable = "yaml_decode_error"
	invalid    = "invalid_resource"
	overBudget = "over_budget"
)

// maxReported limits the errors, and the warnings, that are reported of one object.
const maxReported = 20

// verdict is the decision on one object.
type verdict struct {
	reason           string // why it is refused; empty if it is allowed
	errors, warnings []source.Problem
	changes          []source.Change // what would be stored
}

// validate says whether an object may be stored.
func (h *handler) validate(
	ctx context.Context, leave func(), _ string, r *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	return h.respond(ctx, leave, r), nil
}

// respond decides on one request. A dry run is treated like any other request, since nothing is
// written here.
func (h *handler) respond(
	ctx context.Context, leave func(), r *admissionv1.AdmissionRequest,
) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
	stored := r.Operation == admissionv1.Create || r.Operation == admissionv1.Update
	if !slices.Contains(kinds.ValidatedGroups(), r.Kind.Group) || !stored || r.SubResource != "" {
		// Who asks about other groups has set the webhook up for more than it is for.
		return response
	}
	v := h.check(r)
	if v.reason != "" && r.Operation == admissionv1.Update && sameSpec(r.Object.Raw, r.OldObject.Raw) {
		// It got in while nobody was there to refuse it. What is wrong with it is not this update's
		// doing, and whoever removes a finalizer or sets a label must be able to.
		v.reason, v.warnings, v.errors = "", append(v.errors, v.warnings...), nil
	}
	if v.reason == "" {
		h.weigh(ctx, leave, r.Namespace, &v)
	}
	h.count(r, v)
	response.Warnings = details(v.warnings)
	if v.reason != "" {
		response.Allowed = false
		key := source.Key{Kind: kinds.Kind(r.Kind.Kind), Namespace: r.Namespace, Name: r.Name}
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
			Message: key.String() + " is refused:\n" + strings.Join(details(v.errors), "\n"),
		}
	}
	return response
}

// check reads the object as the directory source does, and converts it as the pipeline does.
func (h *handler) check(r *admissionv1.AdmissionRequest) verdict {
	apiVersion := metav1.GroupVersion{Group: r.Kind.Group, Version: r.Kind.Version}.String()
	if !manifest.Reads(apiVersion, r.Kind.Kind) {
		return verdict{warnings: []source.Problem{{
			Message: fmt.Sprintf("%s of %s is not used by Lateen (yet)", r.Kind.Kind, apiVersion),
		}}}
	}
	v := verdict{}
	if err := untrusted.Object().Check(r.Object.Raw); err != nil {
		v.add([]source.Problem{{Severity: source.Error, Message: "the object is too large: " + err.Error()}})
		v.reason = unreadable
		return v
	}
	reading := manifest.ReadFile("object.json", r.Object.Raw)
	v.add(reading.Problems)
	if len(v.errors) > 0 {
		v.reason = unreadable
		return v
	}
	for _, d := range reading.Documents {
		change := d.Change(time.Time{})
		v.add(h.converter.Convert(change, h.Mesh()).Problems)
		v.changes = append(v.changes, change)
	}
	if len(v.errors) > 0 {
		v.reason = invalid
	}
	return v
}

func (v *verdict) add(problems []source.Problem) {
	for _, p := range problems {
		if p.Severity == source.Error {
			v.errors = append(v.errors, p)
		} else {
			v.warnings = append(v.warnings, p)
		}
	}
}

// sameSpec reports whether an update leaves the spec as it was.
func sameSpec(now, before []byte) bool {
	var specs [2]struct {
		Spec any `json:"spec"`
	}
	for i, raw := range [][]byte{now, before} {
		if json.Unmarshal(raw, &specs[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(specs[0], specs[1])
}

// details returns the problems as text, without the name of the object.
func details(problems []source.Problem) []string {
	var out []string
	for i, p := range problems {
		if i == maxReported {
			return append(out, fmt.Sprintf("and %d more", len(problems)-maxReported))
		}
		out = append(out, p.Detail())
	}
	return out
}

// count counts the decision. The labels stay bounded: all kinds that Lateen does not read count as
// one.
func (h *handler) count(r *admissionv1.AdmissionRequest, v verdict) {
	labels := []string{r.Resource.Group, r.Resource.Version, r.Resource.Resource}
	apiVersion := metav1.GroupVersion{Group: r.Resource.Group, Version: r.Resource.Version}.String()
	if !manifest.Reads(apiVersion, r.Kind.Kind) ||
		labels[2] != kinds.Of(kinds.Kind(r.Kind.Kind)).Resource {
		labels = []string{"", "", "other"}
	}
	if v.reason == "" {
		h.Metrics.Admission.Passed.WithLabelValues(labels...).Inc()
		return
	}
	h.Metrics.Admission.Failed.WithLabelValues(append(labels, v.reason)...).Inc()
}
