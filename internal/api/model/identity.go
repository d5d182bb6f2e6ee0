package model

// IdentityScheme begins the identities of workloads, as they stand in certificates (SPIFFE).
const IdentityScheme = "spiffe://"

// IdentityOf returns the identity of a service account.
func IdentityOf(trustDomain, namespace, account string) string {
	return IdentityScheme + trustDomain + "/ns/" + namespace + "/sa/" + account
}
