package authority

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/endpoint/certificate"
)

// Keys of the authority's Secret. A user who provides an authority sets the first two.
const (
	certKey = "tls.crt"
	keyKey  = "tls.key"
	// nextCertKey and nextKeyKey are the successor, from when it is made until it is used.
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
	// bundleKey holds the authorities to trust, the oldest first, and a few earlier ones that
	// servers may have received. Without it, agents trust the authority alone.
	bundleKey = "ca.crt"
	// crossKey is the authority, signed by the one before it, and so on, the newest first: a client
	// that trusts any of them can connect.
	crossKey = "cross.crt"
	// requestKey is the last value of RotateAnnotation that was carried out. useNextKey is the time
	// at which the requested successor is used, in RFC 3339.
	requestKey = "rotate-request"
	useNextKey = "use-next-at"
	// hostsKey holds all hosts by which agents may still call the endpoint, one per line, the
	// present ones last.
	hostsKey = "hosts"
)

// RotateAnnotation on the authority's Secret requests a successor, once for each value. It is used
// a day later, when each running agent trusts it.
const RotateAnnotation = "drover.cattle.io/rotate"

const (
	year     = 365 * 24 * time.Hour
	life     = 10 * year
	makeNext = 2 * year
	useNext  = year
	// announced is how long agents trust a requested successor before it is used: they renew their
	// access every three hours.
	announced = 24 * time.Hour
	// maxHosts and maxCrosses bound the data for agents that were off.
	maxHosts, maxCrosses = 8, 8
	// maxTrusted bounds the authorities that agents receive: the successor, the one in use, and the
	// earlier ones by which an agent can still connect. maxKept bounds the authorities that are
	// remembered: a server may have received the bundle of as many successors ago.
	maxTrusted = maxCrosses + 2
	maxKept    = maxTrusted + maxCrosses
)

// turn returns the Secret's data for a time, and when to check again. The data is unchanged if
// nothing is due. Unreadable data is an error, never a reason to create another authority. The
// request is the annotation's value.
func turn(data map[string][]byte, request string, now time.Time) (map[string][]byte, time.Time, error) {
	data = maps.Clone(data)
	if len(data) == 0 {
		data = map[string][]byte{}
		if err := add(data, certKey, keyKey, now); err != nil {
			return nil, time.Time{}, err
		}
	}
	current, err := read(data, certKey, keyKey)
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(data[bundleKey]) == 0 {
		data[bundleKey] = data[certKey]
	}
	makeAt, useAt := current.Leaf.NotAfter.Add(-makeNext), current.Leaf.NotAfter.Add(-useNext)
	if request != "" && request != string(data[requestKey]) {
		data[requestKey], makeAt = []byte(request), now
		data[useNextKey] = []byte(now.Add(announced).UTC().Format(time.RFC3339))
	}
	if asked, err := time.Parse(time.RFC3339, string(data[useNextKey])); err == nil && asked.Before(useAt) {
		useAt, makeAt = asked, now
	}
	if !now.Before(makeAt) && len(data[nextCertKey]) == 0 {
		if err := add(data, nextCertKey, nextKeyKey, now); err != nil {
			return nil, time.Time{}, err
		}
	}
	if !now.Before(useAt) {
		next, err := read(data, nextCertKey, nextKeyKey)
		if err != nil {
			return nil, time.Time{}, err
		}
		cross, err := certificate.Cross(next, current)
		if err != nil {
			return nil, time.Time{}, err
		}
		crosses := certificate.Valid(slices.Concat(cross, data[crossKey]), now)
		data[crossKey] = slices.Concat(crosses[:min(len(crosses), maxCrosses)]...)
		data[certKey], data[keyKey] = data[nextCertKey], data[nextKeyKey]
		delete(data, nextCertKey)
		delete(data, nextKeyKey)
		delete(data, useNextKey)
		return turn(data, request, now)
	}
	data[bundleKey] = newest(data[bundleKey], maxKept, now)
	if now.Before(makeAt) {
		return data, makeAt, nil
	}
	return data, useAt, nil
}

// add makes an authority under two keys, and has agents trust it.
func add(data map[string][]byte, cert, key string, now time.Time) (err error) {
	// Names differ, so that a verifying client finds the right authority.
	data[cert], data[key], err = certificate.Authority("drover endpoint "+now.UTC().Format(time.RFC3339), now, now.Add(life))
	data[bundleKey] = append(bytes.Clone(data[bundleKey]), data[cert]...)
	return err
}

// newest are the last authorities of a bundle that have not expired.
func newest(bundle []byte, most int, now time.Time) []byte {
	all := certificate.Valid(bundle, now)
	return slices.Concat(all[max(0, len(all)-most):]...)
}

// remember adds the present names of the endpoint to the hosts that agents received before: an
// agent that was off during the change calls the old name. A start moves its names to the end, and
// the least recently used host is dropped. A running replica does not reorder: two replicas with
// different names would never settle.
func remember(hosts []byte, names []string, start bool) []byte {
	all := strings.Fields(string(hosts))
	if start {
		all = slices.DeleteFunc(all, func(host string) bool { return slices.Contains(names, host) })
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return []byte(strings.Join(all[max(0, len(all)-maxHosts):], "\n"))
}

func read(data map[string][]byte, cert, key string) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(data[cert], data[key])
	if err != nil {
		return nil, fmt.Errorf("reading keys %s and %s: %w", cert, key, err)
	}
	if !pair.Leaf.IsCA {
		return nil, errors.New("the certificate of key " + cert + " is not an authority")
	}
	return &pair, nil
}
