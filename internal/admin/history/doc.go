// Package history remembers what was published: the objects that caused each generation, what it
// changed, and what became of it. It owns the memory for that, within a budget.
//
//	loop ─ changes as they come, generations ─► Recorder ─► Store ◄─ Select ─ pages
//	hub ── what became of a generation ───────►  (its goroutine)
//
// Whoever reports is not held up: a report that the Recorder has no place for is dropped and
// counted. It may import source, api/kinds, xds/resource, admin/page and admin/fields.
package history
