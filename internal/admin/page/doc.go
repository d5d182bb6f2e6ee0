// Package page says what the pages below /debug of the monitoring port are asked, and what they
// answer, in JSON; and asks them. The control plane and its clients share these types.
//
//	sync, err := page.Read[[]page.SyncStatus](ctx, page.At("127.0.0.1:15014"), page.Sync, nil)
//
// Fields that istiod's pages have too have istiod's names. It may import api/kinds and
// source, for names of objects, and mesh/census and mesh/policy, whose reports are a part of
// answers.
package page
