package translatetest

import "github.com/lateen-mesh/lateen/internal/api/model"

// Stacks are the families of addresses that a proxy may have, as golden cases name them.
var Stacks = map[string]model.Stack{
	"": model.IPv4Stack, "IPv6": model.IPv6Stack, "both": model.BothStacks, "dual": model.DualStack,
}
