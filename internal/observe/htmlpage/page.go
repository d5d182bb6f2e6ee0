package htmlpage

import (
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"strings"
)

// assets are the chart library with its licences, and what this package has written around it.
//
//go:embed assets
var assets embed.FS

// Page is what a file shows.
type Page struct {
	Title    string    `json:"title"`
	Sections []Section `json:"sections"`
}

// Section is about one kind of measurement, or one file.
type Section struct {
	Title  string   `json:"title"`
	Lines  []string `json:"lines,omitempty"`
	Charts []Chart  `json:"charts,omitempty"`
	Tables []Table  `json:"tables,omitempty"`
}

// Chart has bars, or lines, of some series over some categories.
type Chart struct {
	Title string `json:"title"`
	// Unit stands at the axis: "ms".
	Unit       string   `json:"unit"`
	Line       bool     `json:"line,omitempty"`
	Categories []string `json:"categories"`
	Series     []Series `json:"series"`
}

// Series has a value for each category; nil where there is none.
type Series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
}

// Table has a header and rows of as many cells.
type Table struct {
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

// IsEmpty reports whether no series has a value other than 0.
func (c Chart) IsEmpty() bool {
	for _, s := range c.Series {
		for _, v := range s.Values {
			if v != nil && *v != 0 {
				return false
			}
		}
	}
	return true
}

// HTML returns the page as one file. Its policy allows no request at all, so whatever stands in a
// report cannot make one.
func (p Page) HTML() ([]byte, error) {
	data, err := json.Marshal(p) // escapes what could end the element
	if err != nil {
		return nil, fmt.Errorf("page %q: %w", p.Title, err)
	}
	parts := map[string]string{}
	for _, name := range []string{
		"echarts.common.min.js", "report.js", "report.css", "LICENSE", "NOTICE", "LICENSE-d3",
	} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		parts[name] = string(content)
	}
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n" +
		`<meta http-equiv="Content-Security-Policy" ` +
		`content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">` + "\n")
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style></head><body>\n", html.EscapeString(p.Title),
		parts["report.css"])
	fmt.Fprintf(&b, "<main id=\"report\"></main>\n<script type=\"application/json\" id=\"data\">%s</script>\n", data)
	fmt.Fprintf(&b, "<script>%s</script>\n<script>%s</script>\n", parts["echarts.common.min.js"], parts["report.js"])
	fmt.Fprintf(&b, "<details><summary>Charts: Apache ECharts</summary><pre>%s\n%s\n%s</pre></details>\n"+
		"</body></html>\n",
		html.EscapeString(parts["NOTICE"]), html.EscapeString(parts["LICENSE"]), html.EscapeString(parts["LICENSE-d3"]))
	return []byte(b.String()), nil
}
