package envoyfilter

import (
	"regexp"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Calls returns the hosts of the clusters that the values of an EnvoyFilter name, in whatever field
// or script, sorted, each once.
func Calls(spec *networking.EnvoyFilter) []model.Host {
	named := regexp.MustCompile(`outbound\|\d+\|[^|\s]*\|([a-zA-Z0-9.-]+)`)
	var found []model.Host
	for _, p := range spec.GetConfigPatches() {
		eachText(structpb.NewStructValue(p.GetPatch().GetValue()), func(text string) {
			for _, name := range named.FindAllStringSubmatch(text, -1) {
				found = append(found, model.Host(name[1]))
			}
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// eachText calls do with the texts in a value, in no order.
func eachText(in *structpb.Value, do func(string)) {
	do(in.GetStringValue())
	for _, v := range in.GetListValue().GetValues() {
		eachText(v, do)
	}
	for _, v := range in.GetStructValue().GetFields() {
		eachText(v, do)
	}
}
