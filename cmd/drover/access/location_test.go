package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/access"
)

func TestParseLocation(t *testing.T) {
	for text, want := range map[string]access.Location{
		"file":                        {Path: "file"},
		"dir/file":                    {Path: "dir/file"},
		"/a:b":                        {Path: "/a:b"},
		"./a:b":                       {Path: "./a:b"},
		"a/b/c:d":                     {Path: "a/b/c:d"},
		"one:/etc/hosts":              {Machine: "one", Path: "/etc/hosts"},
		"one:":                        {Machine: "one", Path: "."},
		"one:~":                       {Machine: "one", Path: "."},
		"one:~/x":                     {Machine: "one", Path: "x"},
		"one:a:b":                     {Machine: "one", Path: "a:b"},
		"genericmachine/one:file":     {Machine: "genericmachine/one", Path: "file"},
		"generic.rke.cattle.io/one:f": {Machine: "generic.rke.cattle.io/one", Path: "f"},
	} {
		got, err := access.ParseLocation(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{"": "a path is empty", ":file": "a machine's name is missing before the colon in :file", ":": "a machine's name is missing before the colon in :"} {
		_, err := access.ParseLocation(text)
		require.EqualError(t, err, want)
	}
}

func TestParseCopy(t *testing.T) {
	c, err := access.ParseCopy([]string{"a", "b", "one:dir"}, true)
	require.NoError(t, err)
	require.Equal(t, access.Copy{
		Sources: []access.Location{{Path: "a"}, {Path: "b"}}, Destination: access.Location{Machine: "one", Path: "dir"}, Recursive: true}, c)
	c, err = access.ParseCopy([]string{"one:a", "two:b", "here"}, false)
	require.NoError(t, err)
	require.Equal(t, access.Copy{
		Sources: []access.Location{{Machine: "one", Path: "a"}, {Machine: "two", Path: "b"}}, Destination: access.Location{Path: "here"}}, c)
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
		{[]string{"a", ":b"}, "a machine's name is missing before the colon in :b"},
		{[]string{"", "one:b"}, "a path is empty"},
		{[]string{"one:a", ""}, "a path is empty"},
	} {
		_, err := access.ParseCopy(c.args, false)
		require.EqualError(t, err, c.err, "%v", c.args)
	}
}

func TestCommandLine(t *testing.T) {
	require.Empty(t, access.CommandLine(nil))
	require.Equal(t, "ls | wc -l", access.CommandLine([]string{"ls | wc -l"}))
	require.Equal(t, `'sh' '-c' 'exit 7'`, access.CommandLine([]string{"sh", "-c", "exit 7"}))
}
