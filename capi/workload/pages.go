package workload

import (
	"fmt"
	"net/url"
	"sync"
	"time"
)

const (
	// maxPaged bounds the lists in pages that a namespace's clusters are giving, in bytes. Cluster API gathers all pages of a list, and the server says
	// when it was the last.
	maxPaged = 16 << 20
	// pagedTime is how long after its last page a list counts as being read.
	pagedTime = 30 * time.Second
)

// pages counts lists that are given in pages.
type pages struct {
	mu    sync.Mutex
	lists map[string]pagedList
}

type pagedList struct {
	bytes int
	last  time.Time
}

// begin refuses one more page when there were too many.
func (p *pages) begin(target *url.URL, now time.Time) error {
	list, next := listOf(target)
	if list == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !next {
		delete(p.lists, list)
		return nil
	}
	sum := 0
	for key, one := range p.lists {
		if now.Sub(one.last) > pagedTime {
			delete(p.lists, key)
			continue
		}
		sum += one.bytes
	}
	if sum > maxPaged {
		return fmt.Errorf("%w: it has too many pages", errAnswer)
	}
	return nil
}

// add counts a page that was read.
func (p *pages) add(target *url.URL, bytes int, now time.Time) {
	list, _ := listOf(target)
	if list == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists == nil {
		p.lists = map[string]pagedList{}
	}
	// A page of nothing counts too, so that no list is without end.
	const least = 16 << 10
	p.lists[list] = pagedList{bytes: p.lists[list].bytes + max(bytes, least), last: now}
}

// listOf names the list that a request asks for a page of, and reports whether it is not the first page.
func listOf(target *url.URL) (name string, next bool) {
	query := target.Query()
	if isWatch(target) || query.Get("limit") == "" {
		return "", false
	}
	next = query.Get("continue") != ""
	query.Del("continue")
	return target.Host + target.Path + "?" + query.Encode(), next
}
