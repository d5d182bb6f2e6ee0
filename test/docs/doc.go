// Package docs checks the Markdown of the repository: links between pages resolve, lines are short,
// tests that a page names exist, names in the pages for contributors exist, and docs/README.md
// leads to every page. It checks the lengths of lines in Go files too.
package docs
