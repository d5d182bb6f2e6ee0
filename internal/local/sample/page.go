package sample

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"
)

//go:embed productpage.html
var pageText string

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

// Title is that of the window, and Heading that of the page.
func (p page) Title() string {
	if p.Detail == nil {
		return "Bookshop"
	}
	return p.Detail.Title
}

// Heading is the book's title.
func (p page) Heading() string {
	if p.Detail == nil {
		return "A book"
	}
	return p.Detail.Title
}

// Filled are five stars, of which so many are filled as the rating has.
func (r *Rating) Filled() string {
	filled := max(0, min(5, r.Stars))
	return strings.Repeat("★", filled) + strings.Repeat("☆", 5-filled)
}

// pageTemplate is parsed once, for the first page.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Parse(pageText)
})

// write writes the page for a browser.
func (p page) write(w io.Writer) error {
	parsed, err := pageTemplate()
	if err != nil {
		return err
	}
	return parsed.Execute(w, p)
}
