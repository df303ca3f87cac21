package vcenter_test

import (
	"bytes"
	_ "embed"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25/soap"

	"github.com/drover-project/drover/e2e/vcenter"
)

//go:embed testdata/debian-12.ovf
var template []byte

// fillLibrary makes a content library with one OVF template.
func fillLibrary(t *testing.T, s *vcenter.Simulator, name string) {
	t.Helper()
	at := s.Endpoint()
	user := url.UserPassword(at.Username, at.Password)
	client, err := govmomi.NewClient(t.Context(), &url.URL{Scheme: "https", Host: at.Address, Path: "/sdk", User: user}, true)
	require.NoError(t, err)
	store, err := find.NewFinder(client.Client).Datastore(t.Context(), "/"+vcenter.Datacenter+"/datastore/"+vcenter.Datastore)
	require.NoError(t, err)
	manager := library.NewManager(rest.NewClient(client.Client))
	require.NoError(t, manager.Login(t.Context(), user))
	id, err := manager.CreateLibrary(t.Context(), library.Library{Name: name, Type: "LOCAL", Storage: []library.StorageBacking{
		{DatastoreID: store.Reference().Value, Type: "DATASTORE"},
	}})
	require.NoError(t, err)
	item, err := manager.CreateLibraryItem(t.Context(), library.Item{Name: vcenter.Template, LibraryID: id, Type: library.ItemTypeOVF})
	require.NoError(t, err)
	session, err := manager.CreateLibraryItemUpdateSession(t.Context(), library.Session{LibraryItemID: item})
	require.NoError(t, err)
	for file, content := range map[string][]byte{"debian-12.ovf": template, "disk.vmdk": make([]byte, 16)} {
		update, err := manager.AddLibraryItemFile(t.Context(), session, library.UpdateFile{Name: file, SourceType: "PUSH", Size: int64(len(content))})
		require.NoError(t, err)
		where, err := url.Parse(update.UploadEndpoint.URI)
		require.NoError(t, err)
		upload := soap.DefaultUpload
		upload.ContentLength = int64(len(content))
		upload.Headers = map[string]string{"vmware-api-session-id": session}
		require.NoError(t, manager.Upload(t.Context(), bytes.NewReader(content), where, &upload))
	}
	require.NoError(t, manager.CompleteLibraryItemUpdateSession(t.Context(), session))
}

func TestDriverClonesFromALibrary(t *testing.T) {
	linkProgram(t)
	t.Chdir(t.TempDir())
	guests := &vcenter.Addresses{}
	s := start(t, guests)
	fillLibrary(t, s, "images")
	d := newDriver(t, s, "four", map[string]any{"creation-type": "library", "content-library": "images", "cloud-config": userData(t)})
	require.NoError(t, d.PreCreateCheck())
	require.NoError(t, d.Create())
	require.Contains(t, guests.Seed("four").UserData, "touch /bootstrapped")
	require.NoError(t, d.Remove())
	require.Empty(t, names(t, s))
}
