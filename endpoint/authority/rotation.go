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

// Keys of the authority's Secret. Whoever brings an authority of his own gives the first two.
const (
	certKey = "tls.crt"
	keyKey  = "tls.key"
	// nextCertKey and nextKeyKey are the successor, from when it is made until it is used.
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
	// bundleKey holds what agents are to trust, the oldest first, and a few before it that servers were told of; without it that is the authority.
	bundleKey = "ca.crt"
	// crossKey is the authority, signed by the one before it, and so on back, the newest first: who trusts any of them comes in.
	crossKey = "cross.crt"
	// requestKey is the value of RotateAnnotation that was obeyed last, and useNextKey when the successor that it asked for is used, in RFC 3339.
	requestKey = "rotate-request"
	useNextKey = "use-next-at"
	// hostsKey holds all by which agents may still call the endpoint, a line each, what they are told now at the end.
	hostsKey = "hosts"
)

// RotateAnnotation on the authority's Secret asks for a successor, once for each value. It is used a day later, when each agent that runs trusts it.
const RotateAnnotation = "drover.cattle.io/rotate"

const (
	year     = 365 * 24 * time.Hour
	life     = 10 * year
	makeNext = 2 * year
	useNext  = year
	// announced is how long a successor that somebody asked for is trusted before it is used: agents renew their access every three hours.
	announced = 24 * time.Hour
	// maxHosts and maxCrosses bound what is shown for agents that were off.
	maxHosts, maxCrosses = 8, 8
	// maxTrusted are the authorities that agents are told of: the successor, the one that is used, and those before it by which one still gets in. maxKept
	// are those that are remembered: a server may have been told of what was trusted as many successors ago.
	maxTrusted = maxCrosses + 2
	maxKept    = maxTrusted + maxCrosses
)

// turn gives what the Secret is to hold at a time, and when to look again; the same data when nothing is due. What cannot be read is an error,
// never a reason to make another authority. The request is the annotation's value.
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
	// Names differ, so that who verifies finds the right one.
	data[cert], data[key], err = certificate.Authority("drover endpoint "+now.UTC().Format(time.RFC3339), now, now.Add(life))
	data[bundleKey] = append(bytes.Clone(data[bundleKey]), data[cert]...)
	return err
}

// newest are the last authorities of a bundle that have not expired.
func newest(bundle []byte, most int, now time.Time) []byte {
	all := certificate.Valid(bundle, now)
	return slices.Concat(all[max(0, len(all)-most):]...)
}

// remember adds the names by which agents are told to call now to the hosts that they were told before: who was off when they changed calls the one that he
// knows. A start puts its names last, and what was not used for the longest goes; a replica that runs does not, or two with different names would never end.
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
