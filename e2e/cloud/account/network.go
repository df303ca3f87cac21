package account

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
)

// reserved addresses at the start of the public range belong to the host.
const reserved = 256

// Network hands out addresses, never the same again before all were used.
type Network struct {
	Public  netip.Prefix // addresses of the public interface
	Private netip.Prefix // of the private one, as large as Public
	Gateway netip.Addr   // the servers' default route

	mu   sync.Mutex
	next uint32
	used map[uint32]bool
}

// Addresses are those of one server.
type Addresses struct {
	Public, Private, IPv6 netip.Addr
}

// Allocate returns addresses that no server has, or an error when all are in use.
func (n *Network) Allocate() (Addresses, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := uint32(1) << (32 - n.Public.Bits())
	if size <= reserved {
		return Addresses{}, errors.New("allocating addresses: the range is too small")
	}
	for range size {
		n.next++
		index := reserved + n.next%(size-reserved)
		if last := index & 0xff; last == 0 || last == 255 || n.used[index] {
			continue
		}
		n.take(index)
		return n.at(index), nil
	}
	return Addresses{}, errors.New("allocating addresses: none left")
}

// Release gives the addresses back.
func (n *Network) Release(public netip.Addr) {
	if !n.Public.Contains(public) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, offset(n.Public, public))
}

func (n *Network) take(index uint32) {
	if n.used == nil {
		n.used = map[uint32]bool{}
	}
	n.used[index] = true
}

func (n *Network) at(index uint32) Addresses {
	var v6 [16]byte
	copy(v6[:], []byte{0x20, 0x01, 0x0d, 0xb8, 0xd0, 0x0d})
	binary.BigEndian.PutUint32(v6[12:], index)
	return Addresses{
		Public: add(n.Public.Addr(), index), Private: add(n.Private.Addr(), index), IPv6: netip.AddrFrom16(v6),
	}
}

func add(base netip.Addr, index uint32) netip.Addr {
	bytes := base.As4()
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], binary.BigEndian.Uint32(bytes[:])+index)
	return netip.AddrFrom4(sum)
}

func offset(prefix netip.Prefix, addr netip.Addr) uint32 {
	base, own := prefix.Addr().As4(), addr.As4()
	return binary.BigEndian.Uint32(own[:]) - binary.BigEndian.Uint32(base[:])
}
