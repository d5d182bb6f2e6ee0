// Package leader owns the election of the one replica that writes into the cluster, by a Lease.
//
//	Lease ──► Run ──► work(ctx), while this replica holds it
//
// The work ends before the Lease is given up, so that on an orderly end no two replicas write at a
// time. When the API server cannot be reached, a replica learns that it has lost the Lease within
// the renewal deadline, before another can take it; what is written must still bear that two write
// at a time, as clocks may stand still.
//
// It may import nothing else of Lateen.
package leader
