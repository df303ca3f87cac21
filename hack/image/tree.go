package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tree reads the folders, files and symbolic links below a folder, by name; they belong to root, as
// all in the image does. In the image they are below another one, which is empty or ends in a
// slash.
func tree(root, below string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f := file{name: below + name, mode: int64(info.Mode().Perm())}
		switch {
		case entry.IsDir():
			f.name += "/"
		case info.Mode()&fs.ModeSymlink != 0:
			f.target, err = os.Readlink(path)
		case info.Mode().IsRegular():
			f.content, err = os.ReadFile(path) //nolint:gosec // the folder is of whoever builds the image
		default:
			return fmt.Errorf("%s is neither file, folder nor symbolic link", path)
		}
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading a folder of the image: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("reading a folder of the image: %s is empty", root)
	}
	return files, nil
}
