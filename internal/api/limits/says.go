package limits

import (
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// Says returns what an object does, for people: "2 per day by x-user; asks limits.shop.svc:8081".
func Says(o Object) string {
	var all []string
	if o.Spec.Local != nil {
		for _, l := range o.Spec.Local.Limits {
			all = append(all, fmt.Sprintf("%d per %s", l.Requests, strings.ToLower(string(l.Per)))+parts(&l.Descriptor))
		}
	}
	if g := o.Spec.Global; g != nil && len(g.Descriptors) > 0 {
		var asked []string
		for _, d := range g.Descriptors {
			asked = append(asked, strings.TrimSpace(d.Name+parts(&d)))
		}
		text := fmt.Sprintf("asks %s:%d about %s", o.Server, g.Service.Port, strings.Join(asked, ", "))
		if g.FailClosed {
			text += ", closed without it"
		}
		all = append(all, text)
	}
	if o.isShadow() {
		all = append(all, "shadow mode")
	}
	if o.Routes != nil {
		all = append(all, "on some routes")
	}
	return strings.Join(all, "; ")
}

// parts says which requests a limit counts, and by what.
func parts(d *ratelimit.Descriptor) string {
	text := ""
	if len(d.By) > 0 {
		var keys []string
		for _, b := range d.By {
			keys = append(keys, KeyOf(b))
		}
		text += " by " + strings.Join(keys, ", ")
	}
	if d.Match != nil {
		text += " of some requests"
	}
	return text
}
