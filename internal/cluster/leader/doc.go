// Package leader owns the election, by a Lease, of the one replica that writes into the cluster.
//
//	Lease ──► Run ──► work(ctx), while this replica holds it
//
// The work ends before the Lease is released, so that after an orderly end no two replicas write at
// a time. If the API server cannot be reached, a replica learns that it has lost the Lease within
// the renewal deadline, before another can take it. Clocks may stand still, so writers must still
// tolerate another one.
//
// It may import nothing else of Lateen.
package leader
