package keysets

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// PrivateVariable is the setting that allows networks which are not public.
const PrivateVariable = "LATEEN_JWKS_PRIVATE_NETWORKS"

// notPublic are the networks that are not reached over the internet, or lead to such ones, beside
// those that netip knows (IANA's registries of special-purpose addresses).
func notPublic() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "fec0::/10",
		"168.63.129.16/32", // the host of a machine of Azure
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// addresses says which addresses may be called.
type addresses struct{ private, blocked []netip.Prefix }

// errBlocked is for an address of a blocked network.
var errBlocked = errors.New("is at an address of BLOCKED_CIDRS_IN_JWKS_URIS")

// privateError is an address that may not be called.
type privateError struct{ address netip.Addr }

// Error names the address and the setting that allows it, for logs. Authors of policies are told
// forAuthor: they choose the host, and must not learn the addresses of others' networks.
func (e *privateError) Error() string {
	return fmt.Sprintf("is at %s, which is no public address and not in %s", e.address, PrivateVariable)
}

// forAuthor is what the author of a policy is told of a privateError.
const forAuthor = "is at an address that is not public and not in " + PrivateVariable

// check returns an error if "address:port" may not be called.
func (a addresses) check(hostPort string) error {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return fmt.Errorf("%q is no address", hostPort)
	}
	address := at.Addr().Unmap().WithZone("")
	in := func(p netip.Prefix) bool { return p.Contains(address) }
	if slices.ContainsFunc(a.blocked, in) {
		return errBlocked
	}
	if slices.ContainsFunc(a.private, in) {
		return nil
	}
	if !address.IsGlobalUnicast() || address.IsPrivate() || slices.ContainsFunc(notPublic(), in) {
		return &privateError{address}
	}
	return nil
}
