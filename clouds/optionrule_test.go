package clouds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
)

func TestRulesRefuseWhatCannotSucceed(t *testing.T) {
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9u\n-----END OPENSSH PRIVATE KEY-----\n"
	for flag, values := range map[string]struct{ good, bad []any }{
		"generic-ip-address": {
			good: []any{nil, "", "198.18.0.9", "fe80::1", "fe80::1%eth0", "::1", "::ffff:198.18.0.9", "host", "host-1.example.com.", "10-0-0-1", "3com.example", "a_b.example", "xn--bcher-kva.example"},
			bad: []any{"300.1.1.1", "198.18.0", "198.18.0.9:22", "root@198.18.0.9", "[::1]", "fe80::zz", "ssh://host", "host name", " host", "host\n", "-oProxyCommand=x",
				"a..b", "bücher.example", "10.0.0.0/8", "1"},
		},
		"generic-ssh-port": {good: []any{nil, "", 1, int64(22), "22", 65535}, bad: []any{0, -1, 65536, int64(1) << 40, "0", "70000", "ssh"}},
		"generic-ssh-key": {good: []any{nil, "", key, "\n" + key, "-----BEGIN RSA PRIVATE KEY-----\nx", "-----BEGIN PRIVATE KEY-----\r\nx"},
			bad: []any{"/home/me/.ssh/id_ed25519", "ssh-ed25519 AAAA me@host", "PuTTY-User-Key-File-3: ssh-ed25519\n", "-----BEGIN PUBLIC KEY-----\nx", "KEY",
				"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIA", "-----BEGIN OPENSSH PRIVATE KEY-----\r\nb3BlbnNzaC1rZXktdjEAAAAAHWNoYWNoYTIwLXBv",
				"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nx"}},
		"vmwarevsphere-os": {good: []any{nil, "", "linux"}, bad: []any{"windows", "Windows", "windows2019"}},
		"somebodys-os":     {good: []any{"ubuntu"}, bad: []any{"windows_2022"}},
	} {
		t.Run(flag, func(t *testing.T) {
			rule, ok := clouds.RuleOf(flag)
			require.True(t, ok)
			for _, value := range values.good {
				require.NoError(t, rule.Check(value), "%q", value)
			}
			for _, value := range values.bad {
				require.EqualError(t, rule.Check(value), rule.Says, "%q", value)
			}
		})
	}
	_, ok := clouds.RuleOf("vultr-os-id")
	require.False(t, ok)
}
