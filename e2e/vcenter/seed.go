package vcenter

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-project/drover/jobrunner/operation/isoimage"
)

const (
	maxImage      = 8 << 20
	guestInfoData = "guestinfo.cloud-init.config.data"
)

// Seed is what cloud-init finds on a virtual machine.
type Seed struct {
	UserData, MetaData string
}

// readSeed reads the CD image the driver put into the drive, or what it wrote into guestinfo.
func (s *Simulator) readSeed(ctx context.Context, vm *object.VirtualMachine) (Seed, error) {
	var machine mo.VirtualMachine
	if err := vm.Properties(ctx, vm.Reference(), []string{"config.hardware.device", "config.extraConfig"}, &machine); err != nil {
		return Seed{}, fmt.Errorf("reading its configuration: %w", err)
	}
	for _, option := range machine.Config.ExtraConfig {
		value := option.GetOptionValue()
		if text, isText := value.Value.(string); isText && value.Key == guestInfoData {
			content, err := base64.StdEncoding.DecodeString(text)
			return Seed{UserData: string(content)}, err
		}
	}
	for _, device := range machine.Config.Hardware.Device {
		drive, isDrive := device.(*types.VirtualCdrom)
		if !isDrive {
			continue
		}
		if backing, isImage := drive.Backing.(*types.VirtualCdromIsoBackingInfo); isImage && strings.HasSuffix(backing.FileName, ".iso") {
			seed, err := s.readImage(ctx, backing.FileName)
			if err != nil || seed != (Seed{}) {
				return seed, err
			}
		}
	}
	return Seed{}, nil
}

// readImage reads a seed out of an image on a datastore, named "[datastore] path".
func (s *Simulator) readImage(ctx context.Context, name string) (Seed, error) {
	var at object.DatastorePath
	if !at.FromString(name) {
		return Seed{}, fmt.Errorf("%q is no path on a datastore", name)
	}
	finder := find.NewFinder(s.client.Client)
	store, err := finder.Datastore(ctx, "/"+Datacenter+"/datastore/"+at.Datastore)
	if err != nil {
		return Seed{}, fmt.Errorf("finding datastore %s: %w", at.Datastore, err)
	}
	body, _, err := store.Download(ctx, at.Path, &soap.DefaultDownload)
	if err != nil {
		return Seed{}, fmt.Errorf("downloading %s: %w", name, err)
	}
	content, err := io.ReadAll(io.LimitReader(body, maxImage))
	_ = body.Close()
	if err != nil {
		return Seed{}, fmt.Errorf("downloading %s: %w", name, err)
	}
	image, err := isoimage.Read(content)
	if errors.Is(err, isoimage.ErrNotReadable) {
		// An image to boot from is no seed.
		return Seed{}, nil
	}
	if err != nil {
		return Seed{}, fmt.Errorf("reading %s: %w", name, err)
	}
	var seed Seed
	for _, file := range image.Files {
		switch file.Name {
		case "user-data":
			seed.UserData = string(file.Content)
		case "meta-data":
			seed.MetaData = string(file.Content)
		}
	}
	return seed, nil
}
