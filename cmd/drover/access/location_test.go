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
	for _, text := range []string{"", ":file"} {
		_, err := access.ParseLocation(text)
		require.Error(t, err, text)
	}
}

func FuzzParseLocation(f *testing.F) {
	f.Add("one:/etc/hosts")
	f.Add("./a:b")
	f.Fuzz(func(t *testing.T, text string) {
		location, err := access.ParseLocation(text)
		if err == nil {
			require.NotEmpty(t, location.Path)
		}
	})
}

func TestParseCopy(t *testing.T) {
	c, err := access.ParseCopy([]string{"a", "b", "one:dir"}, true)
	require.NoError(t, err)
	require.Equal(t, access.Copy{
		Sources: []access.Location{{Path: "a"}, {Path: "b"}}, Destination: access.Location{Machine: "one", Path: "dir"}, Recursive: true}, c)
	for _, args := range [][]string{{}, {"a"}, {"a", "b"}, {"one:a", "two:b"}, {"a", "one:b", "c"}, {"a", ":b"}} {
		_, err := access.ParseCopy(args, false)
		require.Error(t, err, "%v", args)
	}
}

func TestCommandLine(t *testing.T) {
	require.Empty(t, access.CommandLine(nil))
	require.Equal(t, "ls | wc -l", access.CommandLine([]string{"ls | wc -l"}))
	require.Equal(t, `'sh' '-c' 'exit 7'`, access.CommandLine([]string{"sh", "-c", "exit 7"}))
}
