package rest

import (
	"net/url"
	"strconv"

	"github.com/digitalocean/godo"
)

const (
	defaultPerPage = 20
	maxPerPage     = 200
)

// page cuts the asked-for page out of all, and links to the others.
func page[T any](c *call, all []T) ([]T, *godo.Links) {
	query := c.r.URL.Query()
	perPage := positive(query.Get("per_page"), defaultPerPage, maxPerPage)
	pages := max(1, (len(all)+perPage-1)/perPage)
	number := positive(query.Get("page"), 1, 1<<20)
	from := min(len(all), (number-1)*perPage)
	to := min(len(all), from+perPage)
	cut := append([]T{}, all[from:to]...)
	if pages == 1 && number == 1 {
		return cut, &godo.Links{}
	}
	link := func(to int) string {
		query := c.r.URL.Query()
		query.Set("page", strconv.Itoa(to))
		return (&url.URL{Scheme: "https", Host: Host, Path: c.r.URL.Path, RawQuery: query.Encode()}).String()
	}
	found := &godo.Pages{}
	if number > 1 {
		found.First, found.Prev = link(1), link(min(number-1, pages))
	}
	if number < pages {
		found.Next, found.Last = link(number+1), link(pages)
	}
	return cut, &godo.Links{Pages: found}
}

// positive parses text, falling back for anything that is not a number from 1 on.
func positive(text string, fallback, limit int) int {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return fallback
	}
	return min(number, limit)
}
