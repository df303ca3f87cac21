package finder

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/jobrunner"
)

// named are records that name a server of another machine, one without a tag of ours, and none that is there.
type named struct {
	owner                    Owner
	others, untagged, absent map[string]any
	// refuse has the cloud answer nothing of use.
	refuse func()
}

func TestOwner(t *testing.T) {
	for name, open := range map[string]func(*testing.T) named{
		digitalOceanName: func(t *testing.T) named {
			others, untagged := droplet(7), droplet(8)
			others["tags"], untagged["tags"] = []string{jobrunner.TagMachineUID + ":other"}, []string{"mine"}
			a := &account{droplets: []map[string]any{others, untagged}}
			return named{ByTag{cloud: a.cloud(t), driver: digitalOceanName}, map[string]any{"DropletID": json.Number("7")}, map[string]any{"DropletID": json.Number("8")},
				map[string]any{"DropletID": json.Number("9")}, func() { a.status = http.StatusServiceUnavailable }}
		},
		amazonName: func(t *testing.T) named {
			a := newEC2(t)
			return named{ByTag{cloud: a.amazon(nil), driver: amazonName}, map[string]any{"InstanceId": "i-6", "Region": "us-east-1"}, map[string]any{"InstanceId": "i-3"},
				map[string]any{"InstanceId": "i-4"}, func() {
					a.refuse["DescribeInstances us-east-1"] = refusal{http.StatusServiceUnavailable, "<html>"}
				}}
		},
		azureName: func(t *testing.T) named {
			s := newARM(t)
			return named{ByTag{cloud: s.azure(), driver: azureName}, map[string]any{"ResourceGroup": "rg1", "MachineName": "pool-2"},
				map[string]any{"ResourceGroup": "rg1", "MachineName": "pool-3"}, map[string]any{"ResourceGroup": "rg1", "MachineName": "none"},
				func() { s.refuse["GET /subscriptions"] = armError(403, "AuthorizationFailed", "no") }}
		},
		googleName: func(t *testing.T) named {
			g := newGCE(t)
			return named{ByTag{cloud: g.google(nil), driver: googleName}, map[string]any{"Zone": gceZone, "MachineName": "pool-2"},
				map[string]any{"Zone": gceZone, "MachineName": "pool-3"}, map[string]any{"Zone": gceZone, "MachineName": "none"},
				func() { g.refuse["GET /projects"] = gceError(403, "forbidden", "no") }}
		},
		vSphereName: func(t *testing.T) named {
			i := newInventory(t)
			others, untagged := i.clone("theirs", false, machineTags("other")), i.clone("nobodys", false, nil)
			return named{OwnerFor(vSphereName, i.values), map[string]any{"MachineId": others.UUID(t.Context())},
				map[string]any{"MachineId": untagged.UUID(t.Context())}, map[string]any{"MachineId": "4213b1f5-0000-0000-0000-000000000000"}, nil}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			server, err := n.owner.Get(t.Context(), n.others, "m-uid")
			require.NoError(t, err)
			require.Equal(t, "other", server.Tags[jobrunner.TagMachineUID])
			require.NotEmpty(t, server.ID)
			server, err = n.owner.Get(t.Context(), n.untagged, "m-uid")
			require.NoError(t, err)
			require.Empty(t, server.Tags)
			require.NotEmpty(t, server.ID)
			for _, record := range []map[string]any{n.absent, {}, nil} {
				server, err = n.owner.Get(t.Context(), record, "m-uid")
				require.NoError(t, err)
				require.Empty(t, server)
			}
			if n.refuse != nil {
				n.refuse()
				_, err = n.owner.Get(t.Context(), n.others, "m-uid")
				require.Error(t, err, "who does not answer has not said whose it is")
			}
		})
	}
	forThirdParties(t, func(t *testing.T, p thirdParty) {
		get := func(a *fakeAPI, id any) (Server, error) {
			if text, ok := id.(string); ok && p.driver != vultrName {
				id = json.Number(text)
			}
			return ByTag{cloud: a.serve(t, p), driver: p.driver}.Get(t.Context(), map[string]any{clouds.Of(p.driver).ID: id}, "m-uid")
		}
		for id, uid := range map[any]string{"11": uidA, "12": uidB, "13": "", "99": "", "0": "", nil: ""} {
			server, err := get(thirdPartyAccount(p), id)
			require.NoError(t, err)
			require.Equal(t, uid, server.Tags[jobrunner.TagMachineUID], id)
			require.Equal(t, slices.Contains([]any{"11", "12", "13"}, id), server.ID == id)
		}
		for _, refused := range []*fakeAPI{{status: 401}, {status: 503}, {page: true, status: 404}} {
			_, err := get(refused, "11")
			require.Error(t, err, "what does not answer tells nothing")
		}
	})
	require.Nil(t, OwnerFor("acme", nil))
	require.Nil(t, OwnerFor(vSphereName, map[string]any{"other": "options"}), "another driver of that name")
}
