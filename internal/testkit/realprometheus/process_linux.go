package realprometheus

import "syscall"

// dieWithParent ends Prometheus with the test, however that ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
