package access_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/access"
)

// TestParseCopy: each path becomes the argument with which scp means the same.
func TestParseCopy(t *testing.T) {
	for args, want := range map[string]string{
		"a dir/b one:dir":                        "-- a dir/b web-1:dir",
		"one:a one:b here":                       "-- web-1:a web-1:b here",
		"genericmachine/one:a:b .":               "-- web-1:a:b .",
		"generic.rke.cattle.io/one:/etc/hosts x": "-- web-1:/etc/hosts x",
		"/a:b ./a:b a/b/c:d one:":                "-- /a:b ./a:b a/b/c:d web-1:",
		"one:~/x -oProxyCommand=y":               "-- web-1:~/x ./-oProxyCommand=y",
		"one:x .:y":                              "-- web-1:x ./.:y",
	} {
		c, err := access.ParseCopy(strings.Fields(args), nil, false)
		require.NoError(t, err, args)
		require.Equal(t, want, strings.Join(c.Args("web-1"), " "), args)
	}
	c, err := access.ParseCopy([]string{"genericmachine/one:a", "b"}, []string{"-l", "800"}, true)
	require.NoError(t, err)
	require.Equal(t, "genericmachine/one", c.Machine)
	require.Equal(t, []string{"-r", "-l", "800", "--", "web-1:a", "b"}, c.Args("web-1"))

	const sides = "either the sources or the destination are on a machine, written NAME:path, and not both"
	for _, c := range []struct {
		args []string
		err  string
	}{
		{nil, "a source and a destination are needed"},
		{[]string{"a"}, "a source and a destination are needed"},
		{[]string{"a", "b"}, sides},
		{[]string{"one:a", "two:b"}, sides},
		{[]string{"a", "one:b", "c"}, sides},
		{[]string{"one:a", "b", "c"}, sides},
		{[]string{"one:a", "two:b", "c"}, "all sources must be on the same machine: copy from one machine at a time"},
		{[]string{"a", ":b"}, "a machine's name is missing before the colon in :b"},
		{[]string{"", "one:b"}, "a path is empty"},
		{[]string{"one:a", ""}, "a path is empty"},
	} {
		_, err := access.ParseCopy(c.args, nil, false)
		require.EqualError(t, err, c.err, "%v", c.args)
	}
}
