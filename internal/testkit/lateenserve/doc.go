// Package lateenserve runs `lateen-discovery serve` as a process of its own, as images do, so that
// a test can watch it from outside: its log, its metrics, its CPU seconds and memory.
//
//	binary, err := lateenserve.Build(dir)              // in TestMain
//	lateen := lateenserve.Start(t, lateenserve.Options{
//		Binary: binary,
//		Args:   []string{"--kubeconfig", api.Kubeconfig()},
//	})
//	lateen.XDS                                         // where proxies connect
//	before := lateen.Metrics(t)
//
// It imports perf/measure, and nothing else of Lateen; only tests import it.
package lateenserve
