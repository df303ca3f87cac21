package controlplane_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/drover-project/drover/localkube/controlplane"
)

func member(name string, learner bool, urls ...string) *etcdserverpb.Member {
	return &etcdserverpb.Member{Name: name, IsLearner: learner, PeerURLs: urls}
}

func TestMembersWith(t *testing.T) {
	const url = "https://198.18.0.2:2380"
	one := member("one", false, "https://198.18.0.1:2380")
	for name, tc := range map[string]struct {
		list  []*etcdserverpb.Member
		want  []string
		known bool
		err   string
	}{
		"first to join":            {[]*etcdserverpb.Member{one}, []string{"two=" + url, "one=https://198.18.0.1:2380"}, false, ""},
		"asked again before start": {[]*etcdserverpb.Member{one, member("", true, url)}, []string{"two=" + url, "one=https://198.18.0.1:2380"}, true, ""},
		"asked again after start":  {[]*etcdserverpb.Member{one, member("two", true, url)}, []string{"two=" + url, "one=https://198.18.0.1:2380"}, true, ""},
		"third": {
			[]*etcdserverpb.Member{one, member("three", false, "https://198.18.0.3:2380", "https://198.18.0.4:2380")},
			[]string{"two=" + url, "one=https://198.18.0.1:2380", "three=https://198.18.0.3:2380"}, false, "",
		},
		"another has not started":   {[]*etcdserverpb.Member{one, member("", true, "https://198.18.0.9:2380")}, []string{"two=" + url, "one=https://198.18.0.1:2380"}, false, ""},
		"another without URL":       {[]*etcdserverpb.Member{one, member("odd", false)}, []string{"two=" + url, "one=https://198.18.0.1:2380"}, false, ""},
		"another has the name":      {[]*etcdserverpb.Member{one, member("two", false, "https://198.18.0.9:2380")}, nil, false, "adding etcd member two: another server of the cluster has this name: choose another with --node-name"},
		"a machine with a new IP":   {[]*etcdserverpb.Member{member("two", true, "https://198.18.0.9:2380")}, nil, false, "adding etcd member two: another server of the cluster has this name: choose another with --node-name"},
		"nobody there, oddly":       {nil, []string{"two=" + url}, false, ""},
		"known under an older name": {[]*etcdserverpb.Member{one, member("old", false, url)}, []string{"two=" + url, "one=https://198.18.0.1:2380"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, known, err := controlplane.MembersWith(tc.list, "two", url)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				require.ErrorIs(t, err, controlplane.ErrNameTaken)
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.known, known)
		})
	}
}

func TestExplainAdd(t *testing.T) {
	list := []*etcdserverpb.Member{member("one", false, "https://198.18.0.1:2380"), member("", true, "https://198.18.0.9:2380")}
	require.NoError(t, controlplane.ExplainAdd(nil, list))
	require.EqualError(t, controlplane.ExplainAdd(errors.New("boom"), list), "adding etcd member: boom")
	require.EqualError(t, controlplane.ExplainAdd(rpctypes.ErrTooManyLearners, list[:1]), "adding etcd member: etcdserver: too many learner members in cluster")
	err := controlplane.ExplainAdd(rpctypes.ErrTooManyLearners, list)
	require.EqualError(t, err, "adding etcd member: the server at https://198.18.0.9:2380 has not finished joining: let it finish first: "+
		"etcdserver: too many learner members in cluster")
	require.ErrorIs(t, err, rpctypes.ErrTooManyLearners)
}
