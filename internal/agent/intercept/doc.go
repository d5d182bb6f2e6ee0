// Package intercept owns how connections of a Pod come to its proxy: rules of nftables in the Pod's
// network namespace.
//
//	flags of istio-iptables ─► Parse ─► Options ─► rulesOf (pure) ─► Apply ─► table "lateen"
//
// The rules are what Istio's init container sets, in a table of their own for each family of
// addresses: inbound connections go to 15006, outbound ones to 15001, and DNS to 15053 where the
// agent serves it. Those of the proxy itself, told by user or group, go where they are meant to.
// All of a table is replaced in one transaction, so a second run changes nothing and a failed one
// leaves nothing half done.
//
// It may import nothing of Lateen.
package intercept
