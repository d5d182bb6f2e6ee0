package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// reachLimit is how long a decision waits until it is known what a change reaches. An object is not
// kept out because nobody knows that.
const reachLimit = 3 * time.Second

// weighedAtOnce is how many changes are weighed at a time. Others wait, as long as one may take.
const weighedAtOnce = 2

// weigh adds to a verdict what the budget of changes says. An update that leaves the spec as it is
// reaches nobody.
func (h *handler) weigh(ctx context.Context, leave func(), namespace string, v *verdict) {
	if h.Budget == nil || h.Reach == nil || len(v.changes) == 0 {
		return
	}
	budget := h.Budget(namespace)
	if budget.Warns == 0 && budget.Refuses == 0 {
		return
	}
	object := v.changes[0].Object
	allowed := object != nil && object.GetAnnotations()[kinds.OverBudgetAnnotation] == "allow"
	leave() // injection wants the places too
	proxies, known := h.reach(ctx, v.changes)
	reaches := fmt.Sprintf("this reaches %d proxies", proxies)
	switch {
	case !known:
		v.warnings = append(v.warnings, source.Problem{Message: "how many proxies this reaches is not known now"})
	case budget.Refuses != 0 && proxies >= budget.Refuses && !allowed:
		v.reason = overBudget
		v.errors = append(v.errors, source.Problem{
			Severity: source.Error,
			Message:  fmt.Sprintf("%s, and from %d on a change is refused", reaches, budget.Refuses),
			Want:     "a change that reaches fewer, or the annotation " + kinds.OverBudgetAnnotation + ": allow",
		})
	case budget.Warns != 0 && proxies >= budget.Warns, budget.Refuses != 0 && proxies >= budget.Refuses:
		v.warnings = append(v.warnings, source.Problem{
			Message: fmt.Sprintf("%s; lateen plan says what they get", reaches),
		})
	}
}

// reach asks for what changes reach, in its turn.
func (h *handler) reach(ctx context.Context, changes []source.Change) (proxies int, known bool) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	select {
	case h.weighing <- struct{}{}:
		defer func() { <-h.weighing }()
		return h.Reach(ctx, changes)
	case <-ctx.Done():
		return 0, false
	}
}
