package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Errors never tell the address: it may hold a password.
var (
	errProxyPassword = errors.New("holds a user or password, which everyone who may look at a Job could read: Jobs need a proxy that asks them for none")
	errProxyAddress  = errors.New("is no address of a proxy, such as http://host:port, https://host:port, socks5://host:port or host:port")
)

// validateProxies says of a proxy that no flag gave whose it is: who reads the message may not know that Jobs get it too.
func (j *jobOptions) validateProxies() []error {
	var problems []error
	for _, proxy := range []struct {
		flag, value string
		own         variable
	}{{"job-http-proxy", j.httpProxy, j.ownHTTP}, {"job-https-proxy", j.httpsProxy, j.ownHTTPS}} {
		err := checkProxy(proxy.value)
		if err == nil {
			continue
		}
		origin := "--" + proxy.flag
		if proxy.value == proxy.own.value {
			origin = proxy.own.name + " of the manager's environment, which Jobs get too,"
		}
		problems = append(problems, fmt.Errorf("%s %w; --%s=ADDRESS gives Jobs another proxy, --%s= none", origin, err, proxy.flag, proxy.flag))
	}
	return problems
}

// checkProxy reads an address as net/http does, which takes host:port without a scheme too.
func checkProxy(address string) error {
	if address == "" {
		return nil
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	target, err := url.Parse(address)
	switch {
	case err != nil || target.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, target.Scheme):
		return errProxyAddress
	case target.User != nil:
		return errProxyPassword
	}
	return nil
}
