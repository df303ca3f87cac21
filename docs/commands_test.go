package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// clusterCommand finds a kubectl command for a resource named cluster or clusters, without its group.
// A quote, a pipe or a comment ends a command.
var clusterCommand = regexp.MustCompile("(?m)kubectl (?:-\\S+ \\S+ )*(?:annotate|delete|describe|edit|explain|get|label|patch|scale|wait) (?:[^\\n`#\"|]*[ ,])?clusters?(?:[ ,/'\"`]|$)")

// TestCommands_clusters: three kinds are called Cluster, so each command names the group of the kind.
func TestCommands_clusters(t *testing.T) {
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".drover", "bin"}, entry.Name()):
			return fs.SkipDir
		case !slices.Contains([]string{".go", ".golden", ".md", ".sh", ".txt", ".txtar", ".yaml"}, filepath.Ext(path)):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		require.Empty(t, clusterCommand.FindAllString(string(content), -1), "%s: write clusters.provisioning.cattle.io or clusters.cluster.x-k8s.io", path)
		return nil
	}))
	require.Greater(t, files, 500, "files are found")
}

func TestCommands_itself(t *testing.T) {
	for _, command := range []string{"get cluster", "-n shop get clusters", "wait --for=condition=Ready cluster/one", "delete machines,cluster one", "get cluster`"} {
		require.Regexp(t, clusterCommand, "kubectl "+command)
	}
	for _, command := range []string{"get clusters.cluster.x-k8s.io one", "get nodes # of the cluster", "get nodes` in the cluster", "config use-context cluster"} {
		require.NotRegexp(t, clusterCommand, "kubectl "+command)
	}
}
