package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/admission"
	"github.com/drover-project/drover/testkit"
)

// attack is a tenant's pod with an address of its own, and with the path that he should not know: as many connections as it gets, each with a
// review of 6 MB whose last byte never comes, and a new one for each that is ended.
func attack(t *testing.T, c client.Client, address string) (stop func()) {
	t.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: admission.ConfigurationName}, configuration))
	target, err := url.Parse(*configuration.Webhooks[0].ClientConfig.URL)
	require.NoError(t, err)
	const connections, size = 60, 6 << 20
	ctx, cancel := context.WithCancel(t.Context())
	body := make([]byte, size-1)
	// The API server is at 127.0.0.1.
	dialer := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}, Config: &tls.Config{InsecureSkipVerify: true}}
	once := func() {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			pause(ctx, 20*time.Millisecond)
			return
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", target.Path, size)
		if _, err := conn.Write(body); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	var attackers sync.WaitGroup
	for range connections {
		attackers.Go(func() {
			for ctx.Err() == nil {
				once()
			}
		})
	}
	stop = func() {
		cancel()
		attackers.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// peakMemory is the most a process has had, in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kilobytes >> 10
}

// slowestAdmission asks for what a healthy tenant asks for.
func slowestAdmission(t *testing.T, c client.Client, ns string) time.Duration {
	t.Helper()
	var slowest time.Duration
	for i := range 20 {
		begin := time.Now()
		obj := machineOf(ns, fmt.Sprintf("healthy-%d", i), "DigitaloceanMachineTemplate", "")
		require.NoError(t, c.Create(t.Context(), obj, &client.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
		slowest = max(slowest, time.Since(begin))
	}
	return slowest
}

// TestWebhooks_underAttack: who holds bodies back costs the manager a bounded share of memory and nobody else any time, also when
// the manager starts while he does.
func TestWebhooks_underAttack(t *testing.T) {
	c := testClient(t)
	account := installAccount(t, c)
	port := freePort(t)
	flags := []string{"--webhook-port=" + port, "--webhook-url=https://localhost:" + port}
	pid, stop := managerProcess(t, account, flags...)
	awaitActive(t, c, "digitalocean")
	ns := testkit.Namespace(t)
	usual, before := slowestAdmission(t, c, ns), peakMemory(t, pid)

	attack(t, c, "127.0.0.1:"+port)
	deadline := time.Now().Add(15 * time.Second)
	var attacked time.Duration
	for time.Now().Before(deadline) {
		attacked = max(attacked, slowestAdmission(t, c, ns))
	}
	after := peakMemory(t, pid)
	t.Logf("slowest admission %s, under attack %s; peak memory %d MiB, under attack %d MiB", usual, attacked, before, after)
	require.Less(t, after-before, 160, "MiB of memory that the attack costs")
	require.Less(t, attacked, 3*usual+5*time.Second, "the API server waits for 10")

	stop()
	pid, _ = managerProcess(t, account, flags...)
	attacked, after = slowestAdmission(t, c, ns), peakMemory(t, pid)
	t.Logf("started under attack: slowest admission %s, peak memory %d MiB", attacked, after)
	require.Less(t, after-before, 160)
	require.Less(t, attacked, 3*usual+5*time.Second, "the API server waits for 10")
}
