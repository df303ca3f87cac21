package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/sshkeys"
)

// Connect logs in to the server of a machine the user named.
type Connect func(ctx context.Context, machine string) (*sshkeys.Client, error)

// Run copies. Connections are made once per machine. What a source has that is left out does not keep the others from being copied.
func (c Copy) Run(ctx context.Context, connect Connect) error {
	clients := map[string]*sshkeys.Client{}
	missed := 0
	for _, source := range c.Sources {
		machine := source.Machine + c.Destination.Machine
		if clients[machine] == nil {
			client, err := connect(ctx, machine)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }() // when all is copied
			clients[machine] = client
		}
		var err error
		if source.Machine == "" {
			err = c.upload(ctx, clients[machine], source.Path)
		} else {
			err = c.download(ctx, clients[machine], source)
		}
		if left, ok := errors.AsType[*sshkeys.LeftOutError](err); ok {
			missed += left.Count
		} else if err != nil {
			return err
		}
	}
	if missed > 0 {
		return &sshkeys.LeftOutError{Count: missed}
	}
	return nil
}

func (c Copy) upload(ctx context.Context, client *sshkeys.Client, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	if info.IsDir() && !c.Recursive {
		return fmt.Errorf("%s is a directory: use -r", source)
	}
	if len(c.Sources) > 1 {
		status, err := client.Run(ctx, sshkeys.Command{Line: "test -d " + quotePath(c.Destination.Path)})
		if err != nil {
			return err
		}
		if status != 0 {
			return fmt.Errorf("%s is no directory on the server", c.Destination.Path)
		}
	}
	absolute, err := filepath.Abs(source)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	return client.Upload(ctx, os.DirFS(filepath.Dir(absolute)), filepath.Base(absolute), c.Destination.Path, c.Note)
}

func (c Copy) download(ctx context.Context, client *sshkeys.Client, source Location) error {
	if !c.Recursive {
		status, err := client.Run(ctx, sshkeys.Command{Line: "test ! -d " + quotePath(source.Path)})
		if err != nil {
			return err
		}
		if status != 0 {
			return fmt.Errorf("%s:%s is a directory: use -r", source.Machine, source.Path)
		}
	}
	// It goes into the destination when that is a directory, else to it.
	destination := c.Destination.Path
	dir, name := filepath.Dir(destination), filepath.Base(destination)
	switch info, err := os.Stat(destination); {
	case err == nil && info.IsDir():
		if dir, name = destination, path.Base(source.Path); name == "." || name == ".." || name == "/" {
			name = path.Base(source.Machine)
		}
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("looking at the destination: %w", err)
	case len(c.Sources) > 1 || strings.HasSuffix(destination, string(filepath.Separator)):
		return fmt.Errorf("%s is no directory", destination)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the destination: %w", err)
	}
	defer func() { _ = root.Close() }()
	return client.Download(ctx, source.Path, root, name, c.Note)
}

// quotePath also keeps a path that begins with a dash from being taken for an option.
func quotePath(remote string) string {
	if !path.IsAbs(remote) {
		remote = "./" + remote
	}
	return sshkeys.Quote(remote)
}
