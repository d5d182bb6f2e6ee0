// Package cpulimit owns limits of CPU for processes of this machine, as a container's limits.cpu
// sets one: a control group (cgroup v2's cpu.max, or cpu.cfs_quota_us of v1) with a share of each
// period of 100 ms. It imports nothing of the product.
package cpulimit
