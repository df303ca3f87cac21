package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// Pool is a pool of machines.
type Pool struct {
	Name                       string
	Etcd, ControlPlane, Worker bool
	Quantity                   int64
}

// DefaultPools are the pools of a cluster for which none are given: one server and one worker.
func DefaultPools() []Pool {
	return []Pool{{Name: "server", Etcd: true, ControlPlane: true, Quantity: 1}, {Name: "worker", Worker: true, Quantity: 1}}
}

// RoleWords are the words for roles; server stands for etcd and controlplane, all for the three.
var RoleWords = []string{"etcd", "controlplane", "worker", "server", "all"}

// poolName is the pattern of a pool's name in the Cluster's CRD.
var poolName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// ParsePools reads pools of the form NAME=ROLES[:QUANTITY], such as worker=worker:3 or
// server=etcd+controlplane.
func ParsePools(texts []string) ([]Pool, error) {
	if len(texts) == 0 {
		return DefaultPools(), nil
	}
	var pools []Pool
	for _, text := range texts {
		pool, err := parsePool(text)
		if err != nil {
			return nil, fmt.Errorf("--pool %s: %w", text, err)
		}
		if slices.ContainsFunc(pools, func(p Pool) bool { return p.Name == pool.Name }) {
			return nil, fmt.Errorf("pool %q is given twice", pool.Name)
		}
		pools = append(pools, pool)
	}
	return pools, nil
}

func parsePool(text string) (Pool, error) {
	name, rest, found := strings.Cut(text, "=")
	if !found {
		return Pool{}, errors.New("a pool is NAME=ROLES:QUANTITY, such as worker=worker:3")
	}
	if !poolName.MatchString(name) {
		return Pool{}, fmt.Errorf("the name %q has at most 63 lower-case letters, digits and dashes, and begins and ends with a letter or digit", name)
	}
	pool := Pool{Name: name, Quantity: 1}
	roles, number, counted := strings.Cut(rest, ":")
	if counted {
		quantity, err := strconv.ParseUint(number, 10, 32)
		if err != nil || quantity > facts.MaxQuantity {
			return Pool{}, fmt.Errorf("the quantity %q is not a number from 0 to %d", number, facts.MaxQuantity)
		}
		pool.Quantity = int64(quantity)
	}
	for role := range strings.SplitSeq(roles, "+") {
		switch role {
		case "etcd":
			pool.Etcd = true
		case "controlplane":
			pool.ControlPlane = true
		case "worker":
			pool.Worker = true
		case "server":
			pool.Etcd, pool.ControlPlane = true, true
		case "all":
			pool.Etcd, pool.ControlPlane, pool.Worker = true, true, true
		default:
			return Pool{}, fmt.Errorf("the role %q is unknown; roles are %s, joined with +", role, strings.Join(RoleWords, ", "))
		}
	}
	return pool, nil
}
