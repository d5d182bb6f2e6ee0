// Package command owns the commands of lateen-agent: proxy, wait, request, istio-iptables and
// version, as pilot-agent has them. It reads arguments, environment and interfaces, and nothing
// below it does.
//
// It may import agent, agent/intercept and the packages below them.
package command
