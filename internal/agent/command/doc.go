// Package command owns the commands of lateen-agent: proxy, wait, request and version, as
// pilot-agent has them. It reads arguments, environment and interfaces, and nothing below it does.
//
// It may import agent and the packages below it.
package command
