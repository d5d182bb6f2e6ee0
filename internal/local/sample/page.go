package sample

import (
	_ "embed"
	"fmt"
	"html"
	"strings"
)

// pageFrame is the page with a comment for each part that varies. It is no template of
// html/template, which calls methods by name: with it the linker would keep every method of every
// type in the program.
//
//go:embed productpage.html
var pageFrame string

// page is what the product page shows.
type page struct {
	User         string
	Host         string
	Version      string
	Detail       *Detail
	DetailError  string
	Reviews      *ReviewList
	ReviewsError string
}

// html returns the page for a browser.
func (p page) html() string {
	title, heading := "Bookshop", "A book"
	if p.Detail != nil {
		title, heading = p.Detail.Title, p.Detail.Title
	}
	return strings.NewReplacer(
		"<!--title-->", escaped("%s", title),
		"<!--user-->", p.user(),
		"<!--heading-->", escaped("%s", heading),
		"<!--details-->", p.details(),
		"<!--reviews-->", p.reviews(),
		"<!--host-->", escaped("This page: %s (%s).", p.Host, p.Version),
	).Replace(pageFrame)
}

func (p page) user() string {
	if p.User == "" {
		return `<form method="post" action="/login">` +
			`<input name="username" placeholder="any name, try jason" required> <button>Sign in</button></form>`
	}
	return escaped(
		`<form method="post" action="/logout">Signed in as <strong>%s</strong> <button>Sign out</button></form>`,
		p.User,
	)
}

func (p page) details() string {
	d := p.Detail
	if d == nil {
		return escaped(`<p class="error">The details are not available: %s</p>`, p.DetailError)
	}
	return escaped(`<dl>
      <dt>Author</dt><dd>%s</dd><dt>Year</dt><dd>%s</dd><dt>Type</dt><dd>%s</dd>
      <dt>Pages</dt><dd>%s</dd><dt>Publisher</dt><dd>%s</dd><dt>Language</dt><dd>%s</dd>
    </dl>`, d.Author, d.Year, d.Type, d.Pages, d.Publisher, d.Language)
}

func (p page) reviews() string {
	if p.Reviews == nil {
		return escaped(`<p class="error">The reviews are not available: %s</p>`, p.ReviewsError)
	}
	var b strings.Builder
	for _, r := range p.Reviews.Reviews {
		b.WriteString(r.html() + "\n    ")
	}
	return b.String() +
		escaped(`<small>Served by reviews <strong>%s</strong>, %s</small>`, p.Reviews.Version, p.Reviews.PodName)
}

func (r Review) html() string {
	return escaped(`<blockquote>
      <p>%s</p>
      `, r.Text) + r.Rating.html() + escaped(`
      <cite>%s</cite>
    </blockquote>`, r.Reviewer)
}

func (r *Rating) html() string {
	switch {
	case r == nil:
		return ""
	case r.Error != "":
		return escaped(`<p class="error">%s</p>`, r.Error)
	}
	return escaped(`<p class="stars %s" title="%s of 5">%s</p>`, r.Color, r.Stars, stars(r.Stars))
}

// escaped formats values as text that is safe between tags and in quoted attributes. Every verb is
// %s, whatever the value.
func escaped(format string, values ...any) string {
	texts := make([]any, 0, len(values))
	for _, v := range values {
		texts = append(texts, html.EscapeString(fmt.Sprint(v)))
	}
	return fmt.Sprintf(format, texts...)
}

// stars returns five characters, n of them filled.
func stars(n int) string {
	filled := max(0, min(5, n))
	return strings.Repeat("★", filled) + strings.Repeat("☆", 5-filled)
}
