package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner/operation/redact"
)

const (
	token    = "K10f3a7c9d21::server:9b1c2d3e4f5a6b7c"
	password = "Pr0xyPassw0rdOfTheTeam"
)

// documents are what users and bootstrap providers write tokens into.
func documents(t *testing.T) map[string]string {
	t.Helper()
	key, err := json.Marshal(map[string]any{"type": "service_account", "private_key": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END KEY-----\n",
		"token": token, "nested": []any{map[string]any{"password": password}}})
	require.NoError(t, err)
	return map[string]string{
		"a script":       "#!/bin/sh\nset -x\nexport K3S_TOKEN=\"" + token + "\"\ncurl -u admin:x --data '{password: " + password + "}' https://get.example.com/v1.2.3/install.sh\n",
		"a cloud-config": "#cloud-config\nwrite_files:\n- path: /etc/rancher/k3s/config2.yaml\n  content: |\n    token: " + token + "\n    opts: [" + password + ", b]\n",
		"a kubeconfig":   "users:\n- name: admin\n  user:\n    token: " + token + "\n    password: '" + password + "'\n",
		"JSON":           string(key),
	}
}

// TestRedactor_words: a program prints neither the lines nor the quotes of a script, as a shell that traces.
func TestRedactor_words(t *testing.T) {
	for name, document := range documents(t) {
		t.Run(name, func(t *testing.T) {
			var r redact.Redactor
			r.Add(document)
			for _, text := range []string{"+ export K3S_TOKEN=" + token, "level=info msg=\"" + token + "\"", token + "."} {
				require.NotContains(t, r.String(text), "9b1c2d3e4f5a6b7c", text)
			}
			require.Equal(t, "+ curl -u x:"+redact.Mark, r.String("+ curl -u x:"+password))
			for _, ordinary := range []string{
				"https://get.example.com/v1.2.3/install.sh", "/etc/rancher/k3s/config2.yaml", "+ set -x", "service_account", "write_files", "users and name",
			} {
				require.NotContains(t, r.String("> "+ordinary+" <"), redact.Mark)
			}
		})
	}
}

// TestRedactor_ordinary_words: what is no secret stays, for a log without words helps nobody.
func TestRedactor_ordinary_words(t *testing.T) {
	for word, secret := range map[string]bool{
		"a1b2c3d4e5f6a7b8": true, "a1b2c3d4e5f6a7b": false, "unattended-upgrades": false, "198.18.0.1:65535/32": false, "1234567890123456": false,
		"/usr/lib/x86_64-linux-gnu": false, "./install-1.2.3-amd64.sh": false, "~/.config/app-1.2.3": false, "$HOME_OF_USER_2_X_Y": false,
		"--node-label-1-of-many": false, "http://198.18.0.1/x": false, "größe1größe2größe": true,
	} {
		var r redact.Redactor
		r.Add("first line\nrun " + word + " now\n")
		require.Equal(t, secret, strings.Contains(r.String("it says "+word+" here"), redact.Mark), word)
		r = redact.Redactor{}
		r.Add("run " + word + " now")
		require.Equal(t, "it says "+word+" here", r.String("it says "+word+" here"), "a single line is one secret, such as a passphrase")
	}
}

// TestRedactor_key_in_JSON: the lines of a key are found as the driver writes them into a file or prints them.
func TestRedactor_key_in_JSON(t *testing.T) {
	var r redact.Redactor
	r.Add(documents(t)["JSON"])
	require.Equal(t, "> "+redact.Mark, r.String("> MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"))
}

func TestRedactor_Keep(t *testing.T) {
	var r redact.Redactor
	r.Keep("team-1", "pool-1-web-7xk2p-9fz")
	r.Add("#cloud-config\nhostname: pool-1-web-7xk2p-9fz\ncluster: pool-1-web-7xk2p\ntoken: a1b2c3d4e5f6a7b8\n")
	require.Equal(t, "server pool-1-web-7xk2p-9fz "+redact.Mark, r.String("server pool-1-web-7xk2p-9fz a1b2c3d4e5f6a7b8"))
}

// TestRedactor_odd_text: a letter in another encoding, or anything packed, keeps no word from being found.
func TestRedactor_odd_text(t *testing.T) {
	var r redact.Redactor
	r.Add("gr\xf6\xdfe\na1b2c3d4e5f6a7b8 x\n")
	require.Equal(t, redact.Mark, r.String("a1b2c3d4e5f6a7b8"))
}
